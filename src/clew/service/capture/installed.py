"""Which version of an agent program is installed, as far as its files say it. The program is never run."""

import os
import re
import shutil
from pathlib import Path

import msgspec

from clew.runtimes.contract import Runtime

# How far above its executable the manifest of a program can be.
_LEVELS = 6
# A session file can hold any text as the version of its program.
_LONGEST = 40
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+[\w.+-]*)", re.ASCII)


class Manifest(msgspec.Struct):
    """What is read of a package.json."""

    version: str = ""
    bin: str | dict[str, str] = ""


def installed_version(program: Runtime) -> str:
    """The version of a program on the PATH; empty if it is not there, or if no file says it."""
    path = shutil.which(program.binary) if program.binary else None
    return version_at(path, program.binary) if path else ""


def version_at(path: str, binary: str) -> str:
    """The version of the program at a path: from the manifest of its package, or from a folder named by the version."""
    real = Path(os.path.realpath(path))
    for folder in list(real.parents)[:_LEVELS]:
        try:
            manifest = msgspec.json.decode((folder / "package.json").read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            continue
        if isinstance(manifest.bin, str) or binary in manifest.bin:
            return _plain(manifest.version)
    named = (_VERSION.fullmatch(part) for part in reversed(real.parts))
    return next((match[1] for match in named if match), "")


def is_newer(version: str, proven: str) -> bool:
    """Whether a version is newer than the newest proven one; an unknown version is not."""
    return bool(version) and _numbers(version) > _numbers(proven)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version[:_LONGEST].partition("-")[0].partition("+")[0])]


def _plain(version: str) -> str:
    match = _VERSION.fullmatch(version[:_LONGEST])
    return match[1] if match else ""
