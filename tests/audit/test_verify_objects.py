"""`verify --objects` finds every damaged or missing object, says who needs it, and repairs it from another copy."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.service.workspaces import cutting, saving
from clew.store import Store, open_store
from clew.store.objects import objects
from clew.store.objects.collection import collect
from clew.store.objects.pack import address, compress
from clew.store.objects.pack_store import loose_key
from service.test_workspace_property import content

ME = "person:me"


@pytest.fixture
def context(tmp_path: Path) -> Any:
    with open_store(f"sqlite:///{tmp_path}/clew.db") as store:
        yield Context(
            store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(tmp_path / "h")
        )


def spans(store: Store) -> list[tuple[bytes, str, int, int]]:
    """Where objects are in packs."""
    with store.database.read() as tx:
        digests = [bytes(digest) for (digest,) in tx.run("objects_after", after=b"", limit=10_000)]
        rows = [(digest, *tx.run("object_read", digest=digest)[0][3:]) for digest in digests]
    return [row for row in rows if row[1]]


def part_of(store: Store, pack: str) -> Path:
    return Path(store.pack_stores.current.describe()) / f"packs/{pack[:2]}/{pack}-0"


def flip(store: Store, digest: bytes) -> None:
    """Change a byte in the middle of an object."""
    [(pack, start, length)] = [row[1:] for row in spans(store) if row[0] == digest]
    path = part_of(store, pack)
    data = bytearray(path.read_bytes())
    data[start + length // 2] ^= 1
    path.write_bytes(data)


def verify(context: Context, **given: Any) -> Any:
    return call(context, "verify_objects", given)


def test_each_damaged_object_is_found_and_repaired_from_what_is_there(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the original files, from what the last snapshot remembers, from another pack; what has no copy is lost."""
    for module in (saving, cutting):
        monkeypatch.setattr(module, "LARGE_BYTES", 200_000)
    monkeypatch.setattr(cutting, "SHORTEST", 16_000)
    monkeypatch.setattr(cutting, "LONGEST", 64_000)
    chance, folder = random.Random(4), tmp_path / "shop"
    (folder / "sub").mkdir(parents=True)
    for number in range(12):
        (folder / "sub" / f"f{number}").write_bytes(chance.randbytes(90_000 if number < 4 else 5_000))
    (folder / "large").write_bytes(chance.randbytes(300_000))
    before = content(folder)
    session = Plane(Local(context)).session("shop").id
    taken = call(context, "workspace_snapshot", {"session": session, "folder": str(folder)})
    store = context.store
    assert verify(context) == verify(context, dry_run=True)
    assert verify(context).problems == []

    for digest, *_ in spans(store):
        flip(store, digest)
    whole = verify(context, dry_run=True)
    assert {problem.result for problem in whole.problems} == {"repairable"}
    assert len(whole.problems) == len(spans(store)) > 16
    named = {need.path for problem in whole.problems for need in problem.needed_by}
    assert {"sub/f3", "large", ""} <= named
    assert {(need.session, need.seq) for p in whole.problems for need in p.needed_by} == {(session, taken.seq)}
    mended = verify(context)
    assert (mended.repaired, mended.lost) == (len(whole.problems), 0)
    assert any("remembers" in problem.source for problem in mended.problems)
    assert verify(context).problems == []
    collect(store, grace_us=0)
    call(context, "workspace_checkout", {"session": session, "folder": str(tmp_path / "out")})
    assert content(tmp_path / "out") == before

    shutil.rmtree(tmp_path / "out")  # Another folder of the session, which has sound copies, too.
    # The files are others by now: nothing has the bytes of f1, a file of its own those of f2, another pack those of f3.
    lost, loose, packed = (address((folder / "sub" / name).read_bytes()) for name in ("f1", "f2", "f3"))
    store.pack_stores.current.write(loose_key(loose), compress((folder / "sub" / "f2").read_bytes()))
    flip(store, lost)
    [(pack, *_)] = [row[1:] for row in spans(store) if row[0] == packed]
    other = "ab" * 16
    part_of(store, other).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(part_of(store, pack), part_of(store, other))
    for name in ("f1", "f2", "f3"):
        (folder / "sub" / name).write_bytes(b"another")
    for digest in (loose, packed):
        flip(store, digest)
    found = {problem.object: problem for problem in verify(context).problems}
    assert found[lost.hex()].result == "lost"
    assert {need.path for need in found[lost.hex()].needed_by} == {"sub/f1"}
    assert (found[loose.hex()].result, "a file of its own" in found[loose.hex()].source) == ("repaired", True)
    assert found[packed.hex()].source == f"pack {other}"
    again = verify(context)
    assert (again.lost, len(again.problems)) == (1, 1)


def test_a_missing_object_comes_back_with_what_names_it(context: Context, tmp_path: Path) -> None:
    """Its row is gone; the copy on the disk is stored, and counted as named."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a").write_bytes(b"kept " * 100)
    session = Plane(Local(context)).session("shop").id
    taken = call(context, "workspace_snapshot", {"session": session, "folder": str(folder)})
    digest = address(b"kept " * 100)
    for name in (digest, bytes.fromhex(taken.snapshot)):
        with context.store.database.write() as tx:
            tx.run("object_ref", digest=name, refs=-1)
        with context.store.database.write() as tx:
            tx.run("object_forget", digest=name, grace=0)
    found = verify(context)
    assert [(problem.what, problem.result) for problem in found.problems] == [("missing", "repaired")] * 2
    collect(context.store, grace_us=0)
    assert verify(context).problems == []
    assert [objects.stat(context.store, name.hex()).refs for name in (digest, bytes.fromhex(taken.snapshot))] == [1, 1]
