"""Parity: every operation gives the same result and the same refusal, over whichever surface it is asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from clew.remote import Remote
from clew.service.access.authenticator import Authenticator
from clew.store import open_store
from isolation.tenants import Question, questions, tenant
from parity.surfaces import Answer, comparable, in_lines, over_cli, over_http, over_python, over_remote, words_of
from server.running import Running

Surface = Callable[[str, Path], list[tuple[Question, Answer]]]


def by_python(url: str, home: Path, *, without: str = "") -> list[tuple[Question, Answer]]:
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
        authenticator = Authenticator(store, home=str(home), fresh_seconds=0)
        return [
            (question, over_python(lambda: authenticator.authenticate(ours.secret), question))
            for question in asked(questions(ours, theirs))
            if question.operation != without
        ]


def by_http(url: str, home: Path) -> list[tuple[Question, Answer]]:
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    with Running(url, str(home)) as running:
        running.authenticator._fresh_seconds = 0
        headers = {"Authorization": f"Bearer {ours.secret}"}
        with httpx2.Client(base_url=running.address, headers=headers, timeout=30) as client:
            return [(question, over_http(client, question)) for question in asked(questions(ours, theirs))]


def asked(every: Iterator[Question]) -> list[Question]:
    """All of them, but what takes the asker's own key or rights away comes last."""
    return sorted(every, key=lambda question: question.operation in ("key_revoke", "key_rotate", "access_revoke"))


def by_remote(url: str, home: Path) -> list[tuple[Question, Answer]]:
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    with Running(url, str(home)) as running:
        running.authenticator._fresh_seconds = 0
        remote = Remote(running.address, ours.secret)
        try:
            return [(question, over_remote(remote, question)) for question in asked(questions(ours, theirs))]
        finally:
            remote.close()


@pytest.mark.parametrize("surface", [by_http, by_remote], ids=["http", "remote"])
def test_a_surface_answers_like_python(surface: Surface, tmp_path: Path) -> None:
    expected = by_python(f"sqlite:///{tmp_path / 'python' / 'clew.db'}", tmp_path / "python")
    found = surface(f"sqlite:///{tmp_path / 'surface' / 'clew.db'}", tmp_path / "surface")
    assert len(found) == len(expected) > 200
    assert not told_apart(expected, found)


def test_the_command_line_answers_like_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Its command takes a file, and what it writes changes the answers that follow.
    without = "artifact_save"
    expected = by_python(f"sqlite:///{tmp_path / 'python' / 'clew.db'}", tmp_path / "python", without=without)
    url = f"sqlite:///{tmp_path / 'surface' / 'clew.db'}"
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLEW_KEY", ours.secret)
    left_out = set()
    found = []
    with Running(url, str(tmp_path / "surface")) as running:
        running.authenticator._fresh_seconds = 0
        monkeypatch.setenv("CLEW_STORE", running.address)
        every = [question for question in asked(questions(ours, theirs)) if question.operation != without]
        for first, question in zip(expected, every, strict=True):
            words = words_of(question)
            if words is None:
                left_out.add(question.operation)
                found.append(first)
                continue
            found.append((question, over_cli(question, words, lambda: tuple(capsys.readouterr()))))  # type: ignore[arg-type, return-value]
    lined = [
        (question, one if one.code or question.operation in left_out else _lined(question, one))
        for question, one in expected
    ]
    assert not told_apart(lined, found)
    # These show something of their own: a file, a stream, a table with a bar; or programs ask for them.
    assert {name for name in left_out if not name.startswith(("audit_", "sync_"))} == {
        "blame", "artifact_get", "tail", "export", "scan", "blob", "originals", "transcript", "sessions_count",
        "family", "continuation", "landmarks", "search_facets",
    }  # fmt: skip


def _lined(question: Question, answer: Answer) -> Answer:
    return answer._replace(text=in_lines(answer.text, question.operation))


def told_apart(expected: list[tuple[Question, Answer]], found: list[tuple[Question, Answer]]) -> str:
    """The questions that were answered differently, with both answers."""
    return "\n".join(
        f"{asked_first.operation} {asked_first.arguments}\n  python: {first}\n  surface: {second}"
        for (asked_first, one), (asked_second, other) in zip(expected, found, strict=True)
        if (first := comparable(asked_first, one)) != (second := comparable(asked_second, other))
    )
