"""Identify which native session a file is, with names that are safe to store, and the project behind a folder."""

import os
import re
from pathlib import PurePath

from blake3 import blake3

from clew.runtimes.contract import Format, Identity
from clew.runtimes.records import UNREADABLE
from clew.service.capture.discovery import SessionFile


def identify(format: Format, session_file: SessionFile, data: bytes) -> Identity:
    """Read the identity from the beginning of a file of lines, or from a whole document."""
    first = next((line for line in data.split(b"\n", 64) if line.strip()), b"") if format.split is None else data
    try:
        identity = format.identify(PurePath(session_file.path), first)
    except UNREADABLE:
        identity = Identity(native="")
    return clean_identity(identity, session_file)


def clean_identity(identity: Identity, session_file: SessionFile) -> Identity:
    """An identity whose names are short, are not paths, and fit into every database, also if the file is hostile."""
    return Identity(
        native=_clean_name(identity.native) or _clean_name(PurePath(session_file.path).stem) or "session",
        project=clean_text(identity.project),
        agent=clean_text(identity.agent),
        parent=_clean_name(identity.parent),
        call=clean_text(identity.call),
        fork_of=_clean_name(identity.fork_of),
        fork_bytes=identity.fork_bytes,
    )


def _clean_name(text: object) -> str:
    """A native id as a name. One that is too long is cut and gets its hash, so that names stay different."""
    name = str(text or "")
    clean = re.sub(r"[^\w.:#@+-]", "_", name)
    if len(clean) <= 200:
        return clean
    return f"{clean[:180]}-{blake3(name.encode('utf-8', 'replace')).hexdigest()[:16]}"


def clean_text(text: object) -> str:
    """Short text without control characters and halves of surrogate pairs."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "_", str(text or ""))[:200]


def project_name(folder: str) -> str:
    """The project behind a folder name such as `-home-me-my-app`: the directory's own name if it still exists."""
    if not re.fullmatch(r"-[A-Za-z0-9-]+", folder):
        return folder
    return _last_name_of_path("/", folder[1:]) or folder.strip("-")


def _last_name_of_path(root: str, rest: str) -> str:
    """Find the directory whose path was written with `-` for every separator and odd character; returns its name."""
    try:
        names = os.listdir(root)
    except OSError:
        return ""
    for name in sorted(names, key=len, reverse=True):
        written = re.sub("[^a-zA-Z0-9]", "-", name)
        if rest == written:
            return name
        if rest.startswith(written + "-") and os.path.isdir(deeper := os.path.join(root, name)):
            last_name = _last_name_of_path(deeper, rest[len(written) + 1 :])
            if last_name:
                return last_name
    return ""
