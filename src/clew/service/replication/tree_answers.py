"""Objects of a snapshot for a store that pulls it, without the secrets where answers leave this machine.

A file that holds a secret, or is lost here, is held back, and a tree goes without the entries whose names hold one. A
piece of a large file is searched together with the pieces beside it, because a secret may lie in two of them.
"""

import msgspec
import zstandard

from clew.model.errors import Damaged, NotFound
from clew.model.file_tree import decode_pieces, decode_tree, encode_tree
from clew.secrets import REACH
from clew.service.kernel.context import Context
from clew.service.replication.trees import TREE_DATA, kind_of
from clew.service.replication.values import PAGE_BYTES, TreeObjects, Wanted
from clew.store.objects import objects


def objects_for(context: Context, wanted: list[Wanted]) -> TreeObjects:
    """The first of these objects, as many as fit into an answer."""
    found: list[tuple[bytes, bytes]] = []
    changed: list[str] = []
    held: list[str] = []
    size = 0
    for want in wanted:
        if size >= PAGE_BYTES:
            break
        try:
            data = objects.load(context.store, want.digest)
            outgoing = _without_secrets(context, want, data) if context.answers_leave_machine else data
        except (NotFound, Damaged):
            outgoing = None  # It is lost here; the rest of the snapshot is not.
        if outgoing is None:
            held.append(want.digest)
            continue
        if outgoing != data:
            changed.append(want.digest)
        size += len(outgoing)
        found.append((objects.digest_of(want.digest), outgoing))
    packed = zstandard.compress(msgspec.msgpack.encode(found)).hex()
    return TreeObjects(packed=packed, changed=changed, held=held)


def _without_secrets(context: Context, want: Wanted, data: bytes) -> bytes | None:
    """The object as it may leave; None when it may not."""
    from clew.secrets.blobs import without_secrets
    from clew.service.privacy.masking import masker_of

    mask = masker_of(context)
    if kind_of(data) == TREE_DATA:
        entries = decode_tree(data)
        if not mask.mask(b"\n".join(entry.name + b"\n" + entry.target for entry in entries))[1]:
            return data
        return encode_tree([entry for entry in entries if not mask.mask(entry.name + b"\n" + entry.target)[1]])
    return None if without_secrets(mask, _with_neighbours(context, want, data))[1] else data


def _with_neighbours(context: Context, want: Wanted, data: bytes) -> bytes:
    """The end of the piece before, the data, and the beginning of the piece after it."""
    if not want.of:
        return data
    pieces = [digest.hex() for digest, _ in decode_pieces(objects.load(context.store, want.of))]
    if want.digest not in pieces:
        return data
    number = pieces.index(want.digest)
    before = objects.load(context.store, pieces[number - 1])[-REACH:] if number else b""
    after = objects.load(context.store, pieces[number + 1])[:REACH] if number + 1 < len(pieces) else b""
    return before + data + after
