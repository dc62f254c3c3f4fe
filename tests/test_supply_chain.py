"""What is installed is pinned by hash, and the bill of materials lists all of it."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("build", "dev", "lock", "run")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


def bill(*names: str) -> dict[str, object]:
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "sbom.py", *names], capture_output=True, text=True, check=True
    )
    made: dict[str, object] = json.loads(run.stdout)
    return made


def test_the_bill_lists_each_pinned_package_with_its_hashes() -> None:
    made = bill()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    components = made["components"]
    assert isinstance(components, list)
    pinned = {
        name.lower() for file in FILES for name in PIN.findall((ROOT / "requirements" / f"{file}.txt").read_text())
    }
    assert {component["name"] for component in components} == {re.sub(r"[-_.]+", "-", name) for name in pinned}
    assert all(re.fullmatch("[0-9a-f]{64}", entry["content"]) for each in components for entry in each["hashes"])
    assert all(component["hashes"] for component in components)
    assert bill() == made, "the same files give the same bill"


def test_a_package_without_a_hash_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loose.txt").write_text("requests==2.0\n")
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "sbom.py", tmp_path / "loose.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "no hash" in run.stderr


def test_make_installs_nothing_that_is_not_pinned_by_hash() -> None:
    for line in (ROOT / "Makefile").read_text().splitlines():
        if "$(PIP) install" in line:
            assert "--require-hashes" in line or "--no-deps --editable ." in line, line
    script = (ROOT / "tools" / "install_clients.sh").read_text()
    pins = script.partition('pins="')[2].partition('"')[0].split("\n")
    for pin in filter(None, pins):
        assert re.fullmatch(r"\S+ +\S+ +[0-9][\w.-]* +sha512-[A-Za-z0-9+/]{86}==", pin), pin
    assert script.count("npm install --prefix") == 1
    assert script.index("dist.integrity") < script.index("npm install --prefix")
