"""Verifying a bundle on a machine that has nothing but the file."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clew.model import chain
from clew.model.chain_check import ChainCheck, ChainedEvent
from clew.model.checkpoint import PublicKey
from clew.model.errors import Damaged, InvalidInput
from clew.model.events import BodiesPruned, OperationCalled
from clew.service.audit.bundle_lines import FORMAT, BundleLine, EventLine, LeafLine, SessionLine
from clew.service.audit.examination import Audited, Examination

# Bodies that are about the log itself and hold nothing of a conversation.
OWN_RECORDS = {BodiesPruned.kind, OperationCalled.kind}


def examine(lines: Iterable[bytes], keys: list[PublicKey], kept: list[str]) -> Audited:
    """Examine a bundle: every chain, every leaf, every checkpoint."""
    return _Reader(keys, kept).run(_parsed(lines))


def _parsed(lines: Iterable[bytes]) -> Iterator[BundleLine]:
    decode = msgspec.json.Decoder(BundleLine).decode
    count = 0
    ended = False
    for count, line in enumerate(lines, 1):
        try:
            found = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Damaged(f"line {count} of the bundle cannot be read: {error}", line=count) from error
        if (count == 1) != (found.bundle is not None) or ended:
            raise Damaged(f"line {count} of the bundle is not where it belongs", line=count)
        if found.bundle is not None and found.bundle.format != FORMAT:
            raise InvalidInput(
                f"this bundle has format {found.bundle.format} and this program reads {FORMAT}: upgrade clew"
            )
        if found.end is not None and found.end.lines != count:
            raise Damaged(f"the bundle had {found.end.lines} lines when it was made, and has {count}")
        ended = found.end is not None
        yield found
    if not ended:
        raise Damaged(f"the bundle ends after {count} lines without saying so: the rest of it is missing")


class _Reader:
    """One pass over the lines. Digests are remembered where a leaf or a fork asks for them."""

    def __init__(self, keys: list[PublicKey], kept: list[str]) -> None:
        self._looking = Examination(keys)
        self._kept = kept
        self._stated: list[tuple[int, Any]] = []
        self._digests: dict[tuple[str, int], bytes | None] = {}
        self._sessions: dict[str, SessionLine] = {}
        self._chain: _Chain | None = None
        self._done: dict[str, _Chain] = {}

    def run(self, lines: Iterator[BundleLine]) -> Audited:
        looking = self._looking
        has_leaves = False
        for line in lines:
            if line.checkpoint is not None:
                one = line.checkpoint
                looking.checkpoint(one.number, one.size, one.note, one.signer)
                continue
            if not has_leaves and line.bundle is None:
                has_leaves = True
                for note in self._kept:
                    looking.kept_elsewhere(note)
            if line.leaf is not None:
                self._leaf(line.leaf)
            elif line.session is not None:
                self._session(line.session)
            elif line.event is not None:
                self._event(line.event)
        self._close()
        for number, leaf in self._stated:
            looking.stood(number, leaf, self._digests[leaf.session, leaf.seq])
        for session in self._sessions.values():
            self._compare(session)
        notes = looking.finish()
        chains = self._done.values()
        return Audited(
            sessions=len(self._sessions), events=sum(each.check.events for each in chains),
            removed=sum(each.check.removed for each in chains), leaves=looking.leaves, checkpoints=looking.checkpoints,
            kept=looking.kept, beyond=looking.beyond, problems=looking.flaws, notes=notes,
        )  # fmt: skip

    def _leaf(self, one: LeafLine) -> None:
        leaf = self._looking.leaf(one.number, one.session, one.statement)
        if leaf is not None:
            self._stated.append((one.number, leaf))
            self._digests[leaf.session, leaf.seq] = None

    def _session(self, one: SessionLine) -> None:
        if one.id in self._sessions:
            self._looking.report(f"session {one.id}", "it is in the bundle twice")
        self._sessions[one.id] = one
        if one.parent is not None:
            self._digests.setdefault((one.parent, one.upto), None)

    def _event(self, event: EventLine) -> None:
        if self._chain is None or self._chain.session.id != event.session:
            self._close()
            session = self._sessions.get(event.session)
            if session is None or session.id in self._done:
                self._looking.report(f"session {event.session} seq {event.seq}", "its place in the bundle is wrong")
                session = session or SessionLine(event.session, None, 0, False, None, 0, None)
            previous = chain.GENESIS if session.parent is None else self._digests[session.parent, session.upto]
            covered = max(self._looking.covered(session.id), session.upto)
            self._chain = _Chain(self._looking, session, previous, covered)
        self._chain.add(event)
        if (event.session, event.seq) in self._digests:
            self._digests[event.session, event.seq] = _bytes(event.digest)

    def _close(self) -> None:
        if self._chain is not None:
            self._chain.check.finish()
            self._done[self._chain.session.id] = self._chain
            self._chain = None

    def _compare(self, one: SessionLine) -> None:
        found = self._done.get(one.id)
        head = found.check.seq if found else one.upto
        if one.head is None or head < one.head:
            self._looking.report(f"session {one.id}", f"its head is {one.head}, and its last event is {head}")
        self._looking.session(
            one.id, project=one.project, opened_at=one.opened_at, control=int(one.control), head=head, own=one.upto,
            position=found.beyond if found else None,
        )  # fmt: skip


class _Chain:
    """The events of one session, checked one after the other."""

    def __init__(self, looking: Examination, session: SessionLine, previous: bytes | None, covered: int) -> None:
        self.session = session
        self.beyond: int | None = None
        self._covered = covered
        self._looking = looking
        self.check = ChainCheck(session.id, upto=session.upto, previous=previous, report=self._report)
        if previous is None:
            self._report(session.upto, f"the event it was forked at is missing from its parent {session.parent}")

    def add(self, event: EventLine) -> None:
        if event.seq > self._covered:
            self.beyond = event.position if self.beyond is None else min(self.beyond, event.position)
        self.check.add(
            ChainedEvent(
                event.seq, event.kind, event.version, event.at, event.said_at, event.actor, event.source,
                _bytes(event.digest), body=event.body,
                body_hash=_bytes(event.hash) if event.body is None and event.hash is not None else None,
                seal=_bytes(event.seal or ""),
                lost=f"its body was lost before the bundle was made: {event.lost}" if event.lost else "",
            )
        )  # fmt: skip

    def _report(self, seq: int, what: str) -> None:
        self._looking.report(f"session {self.session.id} seq {seq}", what)


def _bytes(text: str) -> bytes:
    """Bytes from hexadecimal; none when it is not that, which then fits nothing."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
