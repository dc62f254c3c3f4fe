"""What captured sessions are called: names from files and records, made safe, and the project behind a folder."""

import os
import re
from pathlib import PurePath

from blake3 import blake3

from clew.runtimes.contract import Format, Identity
from clew.runtimes.records import UNREADABLE
from clew.service.capture.discovery import SessionFile


def identify(format: Format, found: SessionFile, data: bytes) -> Identity:
    first = next((line for line in data.split(b"\n", 64) if line.strip()), b"") if format.split is None else data
    try:
        identity = format.identify(PurePath(found.path), first)
    except UNREADABLE:
        identity = Identity(native="")
    return checked(identity, found)


def checked(identity: Identity, found: SessionFile) -> Identity:
    """An identity in which a hostile name is neither a path nor a page of text, and every database takes it."""
    return Identity(
        native=_name(identity.native) or _name(PurePath(found.path).stem) or "session",
        project=plain(identity.project),
        agent=plain(identity.agent),
        parent=_name(identity.parent),
        call=plain(identity.call),
        fork_of=_name(identity.fork_of),
        fork_bytes=identity.fork_bytes,
    )


def _name(text: object) -> str:
    """A native id as a name. One that had to be cut is told apart from others by its hash."""
    name = str(text or "")
    clean = re.sub(r"[^\w.:#@+-]", "_", name)
    if len(clean) <= 200:
        return clean
    return f"{clean[:180]}-{blake3(name.encode('utf-8', 'replace')).hexdigest()[:16]}"


def plain(text: object) -> str:
    """Text without what a database or a terminal would choke on."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "_", str(text or ""))[:200]


def project_name(folder: str) -> str:
    """The project behind a folder name such as `-home-me-my-app`: the directory's own name if it is still there."""
    if not re.fullmatch(r"-[A-Za-z0-9-]+", folder):
        return folder
    return _walk("/", folder[1:]) or folder.strip("-")


def _walk(root: str, rest: str) -> str:
    """Follow a path whose separators and odd characters were all written as `-`."""
    try:
        names = os.listdir(root)
    except OSError:
        return ""
    for name in sorted(names, key=len, reverse=True):
        written = re.sub("[^a-zA-Z0-9]", "-", name)
        if rest == written:
            return name
        if rest.startswith(written + "-") and os.path.isdir(deeper := os.path.join(root, name)):
            found = _walk(deeper, rest[len(written) + 1 :])
            if found:
                return found
    return ""
