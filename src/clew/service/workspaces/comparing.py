"""What is different between two trees. Equal folders have the same digest, so only folders that differ are read."""

from collections.abc import Iterator
from typing import NamedTuple

from clew.model.file_tree import FOLDER, Entry, refuse_depth
from clew.model.steps import end_step
from clew.service.workspaces.points import by_name
from clew.store import Store


class Difference(NamedTuple):
    """A path that is another: as it was, and as it is; None where there is nothing."""

    path: bytes
    before: Entry | None
    after: Entry | None


def compare(store: Store, before: bytes, after: bytes, path: bytes = b"") -> Iterator[Difference]:
    """What differs below two folders, in the order of paths; an empty digest is an empty folder."""
    if before == after:
        return
    end_step()
    refuse_depth(path)
    old = by_name(store, before) if before else {}
    new = by_name(store, after) if after else {}
    for name in sorted(old.keys() | new.keys()):
        yield from compare_entries(store, old.get(name), new.get(name), path + b"/" + name if path else name)


def compare_entries(store: Store, before: Entry | None, after: Entry | None, path: bytes) -> Iterator[Difference]:
    """What differs between two entries at a path, and below them."""
    if before == after:
        return
    were, are = is_folder(before), is_folder(after)
    if not (were and are and before is not None and after is not None and before.mode == after.mode):
        yield Difference(path, before, after)
    if were or are:
        yield from compare(
            store, before.digest if before and were else b"", after.digest if after and are else b"", path
        )


def is_folder(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == FOLDER
