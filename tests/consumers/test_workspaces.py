"""The files of a session are kept after its turns, where a project wants that, and only surely a workspace."""

import threading
from pathlib import Path

import pytest

from clew.client import OpenSession, Plane
from clew.consumers.workspaces import Workspaces
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context, call
from clew.store import Store

ME = "person:ada"


@pytest.fixture
def database() -> str:
    return "sqlite"


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    home = tmp_path / "home"
    return Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(home))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / "work" / "src").mkdir()
    (tmp_path / "work" / "a").write_text("1")
    return tmp_path / "work"


def at_work(context: Context, folder: Path) -> OpenSession:
    session = Plane(Local(context)).session("t", project="shop")
    session.append({"kind": "runtime_attached", "runtime": "codex", "cwd": str(folder)})
    return session


def kept(context: Context, session: OpenSession) -> list[str]:
    return [point.folder for point in call(context, "workspace_log", {"session": session.id})]


def switch_on(context: Context, project: str = "shop") -> None:
    call(context, "setting_set", {"project": project, "name": "workspaces", "value": "on"})


def test_the_repository_is_kept_after_a_turn_once(context: Context, repository: Path) -> None:
    switch_on(context)
    consumer, stopping = Workspaces(context, pytest.fail), threading.Event()
    session = at_work(context, repository / "src")
    session.user("change it")
    assert consumer.run(stopping) is None
    assert kept(context, session) == [str(repository)], "as it was before the agent changes anything"
    (repository / "a").write_text("2")
    session.call("Read", {"file_path": "a"}).returned("1")
    assert consumer.run(stopping) is None, "a call that only looks changes no file"
    session.call("Bash", {"command": "make"}).returned("")
    assert 0 < (consumer.run(stopping) or 0) <= 1, "another call may follow"
    assert len(kept(context, session)) == 1
    session.end_turn()
    assert consumer.run(stopping) is None
    assert len(kept(context, session)) == 2
    session.user("do nothing")
    session.end_turn()
    consumer.run(stopping)
    assert len(kept(context, session)) == 2, "nothing has changed"
    (repository / "a").write_text("what a shell command changed")
    session.end_turn()
    consumer.run(stopping)
    assert len(kept(context, session)) == 3


def test_the_files_are_kept_after_a_burst_of_calls_and_while_a_long_one_goes_on(
    context: Context, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(context)
    now = [1_000.0]
    monkeypatch.setattr("clew.consumers.workspaces.time.monotonic", lambda: now[0])
    consumer, stopping = Workspaces(context, pytest.fail), threading.Event()
    session = at_work(context, repository)

    def after(seconds: float, *, calls: bool) -> int:
        now[0] += seconds
        if calls:
            (repository / "a").write_text(str(now[0]))
            session.call("Bash", {"command": "make"}).returned("")
        consumer.run(stopping)
        return len(kept(context, session))

    assert [after(0.5, calls=True), after(0.5, calls=True), after(0.5, calls=False), after(0.6, calls=False)] == [
        0, 0, 0, 1,
    ]  # fmt: skip
    # The calls of a long burst come faster than files are kept, and still they are.
    assert [after(0.9, calls=True) for _ in range(6)] == [1, 1, 1, 1, 1, 1]
    assert after(0.6, calls=True) == 2


def test_a_session_without_the_end_of_a_turn_is_kept_when_it_is_quiet(context: Context, repository: Path) -> None:
    switch_on(context)
    consumer = Workspaces(context, pytest.fail, quiet_seconds=0)
    session = at_work(context, repository)
    session.assistant("I have changed it")
    consumer.run(threading.Event())
    assert kept(context, session) == [str(repository)]


def test_nothing_is_kept_unless_the_project_wants_it(context: Context, repository: Path) -> None:
    consumer = Workspaces(context, pytest.fail)
    session = at_work(context, repository)
    session.end_turn()
    consumer.run(threading.Event())
    switch_on(context, "another")
    session.end_turn()
    consumer.run(threading.Event())
    assert kept(context, session) == []


def test_no_folder_is_kept_that_may_be_no_workspace(
    context: Context, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(context)
    plain = tmp_path / "plain"
    plain.mkdir()
    session = at_work(context, plain)
    assert call(context, "workspace_keep", {"sessions": [session.id]}) == []
    monkeypatch.setenv("HOME", str(repository))
    session = at_work(context, repository)
    assert call(context, "workspace_keep", {"sessions": [session.id]}) == []


def test_a_failure_is_reported_once(context: Context, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.service.workspaces import automatic
    from clew.service.workspaces.saving import Limits

    monkeypatch.setattr(automatic, "LIMITS", Limits(most_bytes=0))
    switch_on(context)
    said: list[str] = []
    consumer = Workspaces(context, said.append)
    session = at_work(context, repository)
    for _ in range(2):
        session.end_turn()
        consumer.run(threading.Event())
    [text] = said
    assert f"the files of session {session.id} are not kept" in text
