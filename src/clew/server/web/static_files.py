"""Styles, scripts and vendored files: read once, and served under an address that names their content.

All files are below one address with one digest, so a script imports another one by its relative name, and a browser
keeps each until any of them changes.
"""

import hashlib
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

TYPES = {"css": "text/css", "js": "text/javascript"}
FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
# Without the digest in its address a file may change under the browser that keeps it.
CHECKED = {"cache-control": "no-cache"}


_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AROUND_SIGN = re.compile(r" ?([{};,]) ?")


class StaticFile(NamedTuple):
    data: bytes
    media_type: str


@cache
def static_files() -> dict[str, StaticFile]:
    """The files by their names, as `clew.css` and `vendor/htmx.min.js`."""
    return dict(_files_below(files("clew.server.web") / "static", ""))


@cache
def digest() -> str:
    """What the address of all files begins with."""
    content = hashlib.sha256()
    for name, file in sorted(static_files().items()):
        content.update(name.encode() + b"\0" + hashlib.sha256(file.data).digest())
    return content.hexdigest()[:16]


def address(name: str) -> str:
    """The address of a file."""
    if name not in static_files():
        raise AssertionError(f"there is no static file {name}")
    return f"/assets/{digest()}/{name}"


def _files_below(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files_below(entry, f"{prefix}{entry.name}/")
        elif media_type := TYPES.get(entry.name.rpartition(".")[2]):
            data = entry.read_bytes()
            data = packed(data.decode()).encode() if media_type == TYPES["css"] else data
            found.append((f"{prefix}{entry.name}", StaticFile(data, media_type)))
    return found


def packed(styles: str) -> str:
    """A style sheet without its comments and the blanks that mean nothing; no string in ours has any of these signs."""
    styles = " ".join(_COMMENT.sub("", styles).split())
    return _AROUND_SIGN.sub(r"\1", styles).replace(": ", ":").replace(";}", "}")
