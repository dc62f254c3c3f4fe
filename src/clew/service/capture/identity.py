"""Identify which native session a file is, with names that are safe to store."""

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
        is_chosen=identity.is_chosen,
        folder=identity.folder,
        folder_file=identity.folder_file,
        repository=identity.repository,
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
