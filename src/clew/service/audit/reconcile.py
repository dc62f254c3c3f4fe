"""Reconcile the grants and credentials in the database with the entries of the audit log that made and ended them."""

from collections.abc import Iterator
from typing import NamedTuple

from clew.model.events import Event, OperationCalled
from clew.service.kernel.audit_record import BASELINE
from clew.store import Store
from clew.store.access.rule_rows import describe_all, digests_of, end_of, is_explained
from clew.store.audit_records import control_logs, find_session

NO_BASELINE = "no grant and no credential was made since the audit log states them, so none was compared with it"


class Unexplained(NamedTuple):
    """A row that the audit log does not explain."""

    row: str
    what: str


class _Statement(NamedTuple):
    position: int
    text: str


def unexplained(store: Store) -> tuple[list[Unexplained], bool]:
    """The grants and credentials that no entry explains, and whether they could be compared with the log."""
    rows = list(describe_all(store))
    if not rows:
        return [], True
    made: dict[str, _Statement] = {}
    ended: dict[str, Event] = {}
    has_baseline = False
    for event in _entries(store):
        body = event.body
        if not isinstance(body, OperationCalled):
            continue
        has_baseline = has_baseline or body.operation == BASELINE
        for name, text in zip(body.made, body.rows, strict=False):
            if name not in made or made[name].position < event.position:
                made[name] = _Statement(event.position, text)
        for name in body.ended:
            if name not in ended or ended[name].position < event.position:
                ended[name] = event
    if not has_baseline:
        return [], False
    return [
        Unexplained(name, what) for name in rows if (what := _problem(store, name, made.get(name), ended.get(name)))
    ], True


def _problem(store: Store, name: str, statement: _Statement | None, end: Event | None) -> str:
    [now] = digests_of(store, [name])
    if not now:
        return ""
    if statement is None:
        return "it is there, and no entry of the audit log made it"
    if end is not None and end.position > statement.position and not 0 < end_of(now) <= end.at:
        return f"entry {end.seq} of the audit log ended it, and it is valid again"
    if not is_explained(now, statement.text):
        return "it allows something else, or for longer, than the entry of the audit log that made it"
    return ""


def _entries(store: Store) -> Iterator[Event]:
    for log in control_logs(store):
        session = find_session(store, log.key)
        if session is not None:
            yield from store.read(session, kinds=[OperationCalled.kind])
