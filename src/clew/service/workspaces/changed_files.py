"""Which files a snapshot has that are others than in the one before, as its event records them: with both digests.

The event also has the time at which the filesystem says that the file changed. It tells which of several calls can have
changed it, and nothing else keeps it.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from clew.model.errors import NotFound
from clew.model.events import Event, FileChange, WorkspaceRestored, WorkspaceSnapshotted
from clew.model.file_tree import FOLDER, Entry, shown
from clew.service.workspaces.comparing import Difference, compare
from clew.service.workspaces.ignoring import is_secret
from clew.store import Store

# An event names no more files; all of them can be found by comparing the two snapshots.
MOST_NAMED = 1_000


def with_changes(
    store: Store, root: bytes, body: WorkspaceSnapshotted, events: Sequence[Event]
) -> WorkspaceSnapshotted:  # fmt: skip
    """The event of a snapshot with what changed since the last of these points that had all files."""
    last = next((event.body for event in reversed(events) if _has_all(event)), None)
    if not isinstance(last, WorkspaceSnapshotted | WorkspaceRestored) or last.workspace.folder != body.workspace.folder:
        return body
    changed = 0
    changes: list[FileChange] = []
    with suppress(NotFound):  # A retention has removed the files of the snapshot before.
        for difference in compare(store, bytes.fromhex(last.blob), bytes.fromhex(body.blob)):
            if not _is_file(difference.before) and not _is_file(difference.after):
                continue
            changed += 1
            # The digest of a short secret gives it away, and an event goes further than the file does.
            if len(changes) < MOST_NAMED and not any(map(is_secret, difference.path.split(b"/"))):
                changes.append(_change(root, difference))
    return msgspec.structs.replace(body, changed=changed, changes=tuple(changes))


def _has_all(event: Event) -> bool:
    body = event.body
    return isinstance(body, WorkspaceSnapshotted) or (isinstance(body, WorkspaceRestored) and not body.paths)


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry.kind != FOLDER


def _change(root: bytes, difference: Difference) -> FileChange:
    before, after = difference.before, difference.after
    return FileChange(
        path=shown(difference.path),
        before=before.digest.hex() if before is not None and _is_file(before) else "",
        after=after.digest.hex() if after is not None and _is_file(after) else "",
        changed_at=_changed_at(os.path.join(root, difference.path)) if _is_file(after) else 0,
    )


def _changed_at(path: bytes) -> int:
    """When a file was changed last; 0 if it is gone. A mode, a name or a content that is new counts."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0
    return status.st_ctime_ns // 1000 if not stat.S_ISDIR(status.st_mode) else 0
