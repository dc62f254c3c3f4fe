"""Parity: every operation gives the same result and the same refusal, over whichever surface it is asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from clew.service.door import Door
from clew.store import open_store
from isolation.tenants import Question, questions, tenant
from parity.surfaces import Answer, comparable, over_http, over_python
from server.running import Running

Surface = Callable[[str, Path], list[tuple[Question, Answer]]]


def by_python(url: str, home: Path) -> list[tuple[Question, Answer]]:
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
        door = Door(store, home=str(home), fresh_seconds=0)
        return [
            (question, over_python(lambda: door.enter(ours.secret), question))
            for question in asked(questions(ours, theirs))
        ]


def by_http(url: str, home: Path) -> list[tuple[Question, Answer]]:
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
    with Running(url, str(home)) as running:
        running.door._fresh_seconds = 0
        headers = {"Authorization": f"Bearer {ours.secret}"}
        with httpx2.Client(base_url=running.address, headers=headers, timeout=30) as client:
            return [(question, over_http(client, question)) for question in asked(questions(ours, theirs))]


def asked(every: Iterator[Question]) -> list[Question]:
    """All of them, but what takes the asker's own key or rights away comes last."""
    return sorted(every, key=lambda question: question.operation in ("key_revoke", "key_rotate", "access_revoke"))


@pytest.mark.parametrize("surface", [by_http], ids=["http"])
def test_a_surface_answers_like_python(surface: Surface, tmp_path: Path) -> None:
    expected = by_python(f"sqlite:///{tmp_path / 'python' / 'clew.db'}", tmp_path / "python")
    found = surface(f"sqlite:///{tmp_path / 'surface' / 'clew.db'}", tmp_path / "surface")
    assert len(found) == len(expected) > 200
    different = [
        f"{question.operation} {question.arguments}\n  python: {comparable(one)}\n  surface: {comparable(other)}"
        for (question, one), (_, other) in zip(expected, found, strict=True)
        if comparable(one) != comparable(other)
    ]
    assert not different, "\n".join(different)
