"""Snapshots are thinned, take no more room than their quota, and never fill the disk."""

import os
from pathlib import Path
from typing import Any

import pytest

from clew.client import OpenSession, Plane
from clew.doctor import examine
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.model.errors import DiskFull, NotFound, TooLarge
from clew.service import Context, call
from clew.service.workspaces import room
from clew.store import Store
from clew.store.log.thinning import STRICT, thin
from clew.store.log.verify import verify_all
from clew.store.objects.collection import collect
from store.rows import change, one

ME = "person:ada"
HOUR = 3_600_000_000
DAY = 24 * HOUR


@pytest.fixture
def database() -> str:
    return "sqlite"


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    home = tmp_path / "home"
    return Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(home))


@pytest.fixture
def session(context: Context) -> OpenSession:
    return Plane(Local(context)).session("t", project="shop")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / ".git").mkdir(parents=True)
    return made


def keep(context: Context, session: Any, folder: Path, text: str, **given: Any) -> int:
    """A snapshot of a folder with one file of this text; returns its event."""
    (folder / "a").write_text(text)
    return int(call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder), **given}).seq)


def age(context: Context, session: Any, seq: int, at: int) -> None:
    """Let an event have happened then."""
    change(context.store, f"UPDATE event SET at = {at} WHERE {one(context.store.session(session.id), seq)}")


def fresh(context: Context) -> Context:
    """The settings are read anew."""
    return Context(
        store=context.store, unrestricted=context.store, principal=ME, grants=context.grants, home=context.home
    )


def kept_points(context: Context, session: Any) -> list[int]:
    lines = call(context, "workspace_log", {"session": session.id})
    return sorted(line.seq for line in lines if line.thinned_at is None)


def test_one_an_hour_and_then_one_a_day_is_kept(context: Context, session: OpenSession, folder: Path) -> None:
    """All of a day, then the last of each hour for a week, then the last of each day; and what stands on one stays."""
    now = context.store.now() // DAY * DAY + DAY
    ages = {
        "two days ago, 10:10": 2 * DAY - 10 * HOUR - HOUR // 6,
        "10:20": 2 * DAY - 10 * HOUR - HOUR // 3,
        "11:00": 2 * DAY - 11 * HOUR, "today 1": 5 * HOUR, "today 2": 5 * HOUR - 1,
        "ten days ago, morning": 10 * DAY - 8 * HOUR, "noon": 10 * DAY - 12 * HOUR, "evening": 10 * DAY - 20 * HOUR,
    }  # fmt: skip
    seqs = {name: keep(context, session, folder, name) for name in sorted(ages, key=ages.__getitem__, reverse=True)}
    for name, seq in seqs.items():
        age(context, session, seq, now - ages[name])
    thinned = thin(context.store, context.store.session(session.id), actor=ME, now=now)
    gone = {"two days ago, 10:10", "ten days ago, morning", "noon"}
    assert (thinned.snapshots, thinned.kept) == (3, 5)
    assert kept_points(context, session) == sorted(seq for name, seq in seqs.items() if name not in gone)
    again = thin(context.store, context.store.session(session.id), actor=ME, now=now)
    assert (again.snapshots, again.kept) == (0, 5)
    collect(context.store, grace_us=0)
    cat = {"session": session.id, "path": "a"}
    assert call(context, "workspace_cat", {**cat, "at": seqs["10:20"]}).text == "10:20"
    with pytest.raises(
        NotFound, match=r"thinned at 2\d+-.*all of 1 day.*nearest one that is kept is after it at"
    ) as error:
        call(context, "workspace_cat", {**cat, "at": seqs["noon"]})
    assert str(error.value).endswith(f" {seqs['evening']}")
    with pytest.raises(NotFound, match="thinned"):
        call(context, "workspace_restore", {"session": session.id, "at": seqs["two days ago, 10:10"]})


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_what_something_stands_on_is_never_thinned(context: Context, session: OpenSession, folder: Path) -> None:
    """A fork, an artifact, a label, the newest one; and a session on legal hold as a whole. The chains hold."""
    plain = [keep(context, session, folder, "plain")]
    forked = keep(context, session, folder, "forked")
    child = call(context, "fork", {"session": session.id, "at": forked}).id
    plain.append(keep(context, session, folder, "plain too"))
    named = keep(context, session, folder, "named", label="before the migration")
    saved = keep(context, session, folder, "with an artifact")
    session.put("report.txt", [b"done"])
    plain.append(keep(context, session, folder, "plain again"))
    newest = keep(context, session, folder, "newest")
    later = context.store.now() + 30 * DAY
    call(context, "retention_set", {"project": "shop", "hold": True})
    assert thin(context.store, context.store.session(session.id), actor=ME, now=later).snapshots == 0
    call(context, "retention_set", {"project": "shop"})
    thin(context.store, context.store.session(session.id), actor=ME, now=later)
    assert kept_points(context, session) == [forked, named, saved, newest]
    collect(context.store, grace_us=0)
    assert call(context, "workspace_cat", {"session": child, "path": "a"}).text == "forked"
    with pytest.raises(NotFound, match=f"at {plain[0]}, which were thinned"):
        call(context, "workspace_cat", {"session": child, "path": "a", "at": plain[0]})
    [usage] = call(context, "workspace_usage", {"project": "shop"})
    assert (usage.sessions, usage.snapshots) == (1, 4)
    assert [finding.ok for finding in examine(context.store, Path(context.home)) if finding.what == "workspaces"] == [
        True
    ]
    assert [problem for verified in verify_all(context.store) for problem in verified.problems] == []
    assert call(context, "erase", {"session": session.id, "with_forks": True})
    collect(context.store, grace_us=0)
    assert call(context, "verify_objects", {}).problems == []


def test_a_quota_warns_then_thins_then_stops_automatic_snapshots(
    context: Context, session: OpenSession, folder: Path
) -> None:
    call(context, "setting_set", {"name": "workspaces", "value": "on", "project": "shop"})
    old = [keep(context, session, folder, os.urandom(60_000).hex()) for _ in range(3)]
    for number, seq in enumerate(old):
        age(context, session, seq, context.store.now() - 3 * HOUR + number)
    [usage] = call(context, "workspace_usage", {})
    assert (usage.project, usage.snapshots, usage.quota) == ("shop", 3, None)
    assert 180_000 < usage.stored < usage.bytes < 400_000
    call(context, "setting_set", {"name": "workspace_quota", "value": "0.2 MB", "project": "shop"})
    context = fresh(context)
    (folder / "a").write_text("small")
    taken = call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder)})
    assert "of their quota of 0.2 MB" in taken.warning
    call(context, "setting_set", {"name": "workspace_quota", "value": "0.15 MB", "project": "shop"})
    context = fresh(context)
    (folder / "a").write_text("another")
    [kept] = call(context, "workspace_keep", {"sessions": [session.id]})
    assert (kept.error, kept.seq > taken.seq) == ("", True)
    assert kept_points(context, session) == [old[2], taken.seq, kept.seq], "one of that hour is enough now"
    call(context, "setting_set", {"name": "workspace_quota", "value": "0.05 MB", "project": "shop"})
    context = fresh(context)
    (folder / "a").write_text("a third")
    [kept] = call(context, "workspace_keep", {"sessions": [session.id]})
    assert "no automatic one is taken; raise the quota" in kept.error
    # Who asks for one gets it.
    assert call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder)}).warning
    assert STRICT.is_kept(HOUR - 1)


def test_no_snapshot_fills_the_disk(
    context: Context, session: OpenSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the floor it is refused before it writes; tests/crash/test_workspaces.py has a disk that is really full."""
    keep(context, session, folder, "before")
    with pytest.raises(DiskFull, match="no snapshot is taken below"):
        room.refuse_full_disk(context, 2**60)
    monkeypatch.setattr("clew.service.workspaces.automatic.AUTOMATIC_FLOOR", 2**60)
    call(context, "setting_set", {"name": "workspaces", "value": "on", "project": "shop"})
    [kept] = call(fresh(context), "workspace_keep", {"sessions": [session.id]})
    assert "MB free" in kept.error


def test_the_doctor_has_a_row_for_workspaces(context: Context, session: OpenSession, folder: Path) -> None:
    """The setting, the newest snapshot, quotas; and that a snapshot is damaged."""

    def row() -> Any:
        found = [finding for finding in examine(context.store, Path(context.home)) if finding.what == "workspaces"]
        return found[0] if found else None

    assert row() is None
    call(context, "setting_set", {"name": "workspaces", "value": "on", "project": "shop"})
    assert row().found == "kept after each turn in shop; no snapshot yet"
    seq = keep(context, session, folder, "x" * 100)
    call(context, "setting_set", {"name": "workspace_quota", "value": "1 MB", "project": "shop"})
    assert row().ok
    assert row().found.endswith("newest snapshot 0.0 days ago; quota of shop 0% of 1 MB")
    tree = call(context, "workspace_log", {"session": session.id})[0].snapshot
    change(context.store, f"UPDATE blob SET data = x'00' WHERE digest = x'{tree}'")
    damaged = row()
    assert (damaged.ok, seq) == (False, 2)
    assert "1 of the newest are damaged" in damaged.found
    assert "clew verify --objects" in damaged.advice


def test_a_huge_file_is_answered_at_once(context: Context, session: OpenSession, folder: Path) -> None:
    """A file of 20 GB is left out, or the folder is refused, without a byte of it being read."""
    with open(folder / "huge", "wb") as file:
        file.truncate(20 * 10**9)
    taken = call(context, "workspace_snapshot", {"session": session.id, "folder": str(folder)})
    assert (taken.files, [skipped.path for skipped in taken.skipped]) == (0, ["huge"])
    given = {"session": session.id, "folder": str(folder), "largest": 10**12, "most": 10**10}
    with pytest.raises(TooLarge, match="raise the limit"):
        call(context, "workspace_snapshot", given)
