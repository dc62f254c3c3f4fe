"""Files that git tracks and a snapshot leaves out, such as a tracked .env: a checkout takes them from git.

Their changes since they were staged are not kept anywhere, and the checkout says so.
"""

import os

from clew.model.file_tree import FILE, LINK, Entry, shown
from clew.model.git_record import is_tracked_path
from clew.service.kernel.context import Context
from clew.service.workspaces.git_checkout import Made
from clew.service.workspaces.git_index import blobs
from clew.service.workspaces.ignoring import IGNORE_FILES, Rules
from clew.service.workspaces.restoring import Restoring
from clew.service.workspaces.scan import ignore_files
from clew.store.objects import objects

LINK_MODE, EXECUTABLE = b"120000", b"100755"
NAMED = 3


def restore_left_out(context: Context, made: Made, *, masks: bool) -> list[str]:
    """Write the tracked files that rules keep out of snapshots as they are in the index; returns a note about them."""
    root, rules = made.git.folder, {b"": _below(Rules(with_secrets=False), made.git.folder, b"")}
    missing = _missing(made, root)
    left_out = {path: about for path, about in missing.items() if masks or _is_left_out(rules, root, path)}
    data = blobs(made.git, sorted({name for _, name in left_out.values()}))
    if masks:
        from clew.service.privacy.masking import masker_of

        mask = masker_of(context).mask
        left_out = {
            path: (mode, name)
            for path, (mode, name) in left_out.items()
            if _is_left_out(rules, root, path) or mask(data.get(name, b""))[1]
        }
    paths = {path: _entry(context, path, mode, data[name]) for path, (mode, name) in left_out.items() if name in data}
    if not paths:
        return []
    Restoring(context.store, root).restore_paths({path: (None, entry) for path, entry in paths.items()}, {})
    return [_note(paths)]


def _note(paths: dict[bytes, Entry]) -> str:
    named = ", ".join(shown(path) for path in sorted(paths)[:NAMED]) + (" ..." if len(paths) > NAMED else "")
    return f"as in the index, because snapshots leave them out: {named}"


def _missing(made: Made, root: bytes) -> dict[bytes, tuple[bytes, str]]:
    """The tracked files that are not in the folder, with their modes and names in git."""
    missing: dict[bytes, tuple[bytes, str]] = {}
    for line in made.git("ls-files", "--deleted", "--stage", "-z").split(b"\0")[:-1]:
        about, _, path = line.partition(b"\t")
        mode, name, number = about.split(b" ")
        if number == b"0" and mode[:2] in (b"10", b"12") and is_tracked_path(path) and _has_room(root, path):
            missing[path] = (mode, name.decode())
    return missing


def _entry(context: Context, path: bytes, mode: bytes, data: bytes) -> Entry:
    name = os.path.basename(path)
    if mode == LINK_MODE:
        return Entry(name, LINK, target=data)
    digest = bytes.fromhex(objects.put(context.store, [data]))
    return Entry(name, FILE, 0o755 if mode == EXECUTABLE else 0o644, len(data), digest)


def _has_room(root: bytes, path: bytes) -> bool:
    """Whether nothing but folders is above the path; where a link or a file is, the tracked file was removed."""
    parts = path.split(b"/")[:-1]
    above = [os.path.join(root, *parts[: depth + 1]) for depth in range(len(parts))]
    return all(os.path.isdir(folder) and not os.path.islink(folder) for folder in above if os.path.lexists(folder))


def _is_left_out(rules: dict[bytes, Rules], root: bytes, path: bytes) -> bool:
    """Whether a snapshot leaves the path out, or a folder above it."""
    parts = path.split(b"/")
    for depth, name in enumerate(parts):
        above = b"/".join(parts[:depth])
        if above not in rules:
            rules[above] = _below(rules[b"/".join(parts[: depth - 1])], root, above)
        if rules[above].decide(b"/".join(parts[: depth + 1]), name, is_folder=depth + 1 < len(parts)):
            return True
    return False


def _below(rules: Rules, root: bytes, path: bytes) -> Rules:
    """The rules for a folder, with what its own ignore files say."""
    folder = os.path.join(root, path)
    return rules.below(path, ignore_files(folder, {*IGNORE_FILES}))
