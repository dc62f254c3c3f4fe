"""Prints a bill of materials in CycloneDX 1.6: every package that requirements/*.txt pins, with its hashes.

    python tools/sbom.py [FILE ...]

The same files give the same bytes, so a bill can be compared and signed. Licences come from the packages themselves, as
far as they are installed in the environment that runs this.
"""

import json
import re
import sys
import uuid
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main() -> int:
    files = [Path(name) for name in sys.argv[1:]] or sorted((ROOT / "requirements").glob("*.txt"))
    print(json.dumps(bill(files), indent=1, ensure_ascii=False))
    return 0


def bill(files: list[Path]) -> dict[str, Any]:
    """The bill of what these files pin."""
    packages: dict[str, dict[str, Any]] = {}
    for file in files:
        for name, version, hashes in pinned(file.read_text()):
            purl = f"pkg:pypi/{name}@{version}"
            package = packages.setdefault(
                purl,
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": version,
                    "purl": purl,
                    "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(hashes)],
                    "properties": [],
                    **_licence(name),
                },
            )
            package["properties"].append({"name": "clew:pinned-in", "value": file.name})
    components = [packages[purl] for purl in sorted(packages)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components))}",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "clew", "name": "clew"}},
        "components": components,
        "dependencies": [{"ref": "clew", "dependsOn": sorted(packages)}],
    }


def pinned(text: str) -> list[tuple[str, str, list[str]]]:
    """The name, version and hashes of each package in a requirements file; one without a hash is an error."""
    found = []
    for entry in text.replace("\\\n", " ").splitlines():
        match = _PIN.match(entry)
        if match is None:
            if entry.strip() and not entry.startswith("#"):
                raise SystemExit(f"sbom.py: {entry[:80]!r} pins no version")
            continue
        hashes = _HASH.findall(entry)
        if not hashes:
            raise SystemExit(f"sbom.py: {match['name']} has no hash")
        found.append((re.sub(r"[-_.]+", "-", match["name"]).lower(), match["version"], hashes))
    return found


def _licence(name: str) -> dict[str, Any]:
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return {}
    expression = about.get("License-Expression")
    if expression:
        return {"licenses": [{"expression": expression}]}
    named = [line.rpartition("::")[2].strip() for line in about.get_all("Classifier") or () if "License ::" in line]
    return {"licenses": [{"license": {"name": licence}} for licence in named]} if named else {}


if __name__ == "__main__":
    sys.exit(main())
