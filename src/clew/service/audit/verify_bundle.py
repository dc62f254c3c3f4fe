"""Verify a bundle from its file alone, without a store."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from clew.model import chain
from clew.model.chain_check import ChainCheck, ChainedEvent
from clew.model.checkpoint import PublicKey
from clew.model.errors import Damaged, InvalidInput
from clew.model.events import BodiesPruned, OperationCalled
from clew.service.audit.bundle_lines import FORMAT, BundleLine, EventLine, LeafLine, SessionLine
from clew.service.audit.verification import Audited, Verification

# Kinds whose bodies are about the log itself and have no content of a conversation.
OWN_RECORDS = {BodiesPruned.kind, OperationCalled.kind}


def examine(
    lines: Iterable[bytes], keys: list[PublicKey], kept: list[str], witnesses: Sequence[PublicKey] = ()
) -> Audited:
    """Verify a bundle: every chain, every leaf, every checkpoint."""
    return _Reader(Verification(keys, witnesses), kept).run(_parsed(lines))


def _parsed(lines: Iterable[bytes]) -> Iterator[BundleLine]:
    decode = msgspec.json.Decoder(BundleLine).decode
    count = 0
    ended = False
    for count, line in enumerate(lines, 1):
        try:
            parsed = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Damaged(f"line {count} of the bundle cannot be read: {error}", line=count) from error
        if (count == 1) != (parsed.bundle is not None) or ended:
            raise Damaged(f"line {count} of the bundle is out of order", line=count)
        if parsed.bundle is not None and parsed.bundle.format != FORMAT:
            raise InvalidInput(
                f"this bundle has format {parsed.bundle.format} and this program reads {FORMAT}: upgrade clew"
            )
        if parsed.end is not None and parsed.end.lines != count:
            raise Damaged(f"the bundle had {parsed.end.lines} lines when it was made, and has {count}")
        ended = parsed.end is not None
        yield parsed
    if not ended:
        raise Damaged(f"the bundle ends after {count} lines without its end line: the rest of it is missing")


class _Reader:
    """One pass over the lines. It keeps the digests of the events that a leaf or a fork refers to."""

    def __init__(self, verification: Verification, kept: list[str]) -> None:
        self._verification = verification
        self._kept = kept
        self._stated: list[tuple[int, Any]] = []
        self._digests: dict[tuple[str, int], bytes | None] = {}
        self._sessions: dict[str, SessionLine] = {}
        self._chain: _Chain | None = None
        self._done: dict[str, _Chain] = {}

    def run(self, lines: Iterator[BundleLine]) -> Audited:
        verification = self._verification
        has_leaves = False
        for line in lines:
            if line.checkpoint is not None:
                stored = line.checkpoint
                verification.checkpoint(stored.number, stored.size, stored.note, stored.signer)
                continue
            if not has_leaves and line.bundle is None:
                has_leaves = True
                for note in self._kept:
                    verification.kept_elsewhere(note)
            if line.leaf is not None:
                self._leaf(line.leaf)
            elif line.session is not None:
                self._session(line.session)
            elif line.event is not None:
                self._event(line.event)
        self._close()
        for number, leaf in self._stated:
            verification.compare_digest(number, leaf, self._digests[leaf.session, leaf.seq])
        for session in self._sessions.values():
            self._compare(session)
        notes = verification.finish()
        chains = self._done.values()
        return Audited(
            sessions=len(self._sessions), events=sum(checked.check.events for checked in chains),
            removed=sum(checked.check.removed for checked in chains), leaves=verification.leaves,
            checkpoints=verification.checkpoints, kept=verification.kept, beyond=verification.beyond,
            problems=verification.flaws, notes=notes, countersigned=verification.countersigned,
        )  # fmt: skip

    def _leaf(self, line: LeafLine) -> None:
        leaf = self._verification.leaf(line.number, line.session, line.statement)
        if leaf is not None:
            self._stated.append((line.number, leaf))
            self._digests[leaf.session, leaf.seq] = None

    def _session(self, session: SessionLine) -> None:
        if session.id in self._sessions:
            self._verification.report(f"session {session.id}", "it is in the bundle twice")
        self._sessions[session.id] = session
        if session.parent is not None:
            self._digests.setdefault((session.parent, session.upto), None)

    def _event(self, event: EventLine) -> None:
        if self._chain is None or self._chain.session.id != event.session:
            self._close()
            session = self._sessions.get(event.session)
            if session is None or session.id in self._done:
                self._verification.report(
                    f"session {event.session} seq {event.seq}", "its place in the bundle is wrong"
                )
                session = session or SessionLine(event.session, None, 0, False, None, 0, None)
            previous = chain.GENESIS if session.parent is None else self._digests[session.parent, session.upto]
            covered = max(self._verification.covered(session.id), session.upto)
            self._chain = _Chain(self._verification, session, previous, covered)
        self._chain.add(event)
        if (event.session, event.seq) in self._digests:
            self._digests[event.session, event.seq] = _bytes(event.digest)

    def _close(self) -> None:
        if self._chain is not None:
            self._chain.check.finish()
            self._done[self._chain.session.id] = self._chain
            self._chain = None

    def _compare(self, session: SessionLine) -> None:
        checked = self._done.get(session.id)
        head = checked.check.seq if checked else session.upto
        if session.head is None or head < session.head:
            self._verification.report(
                f"session {session.id}", f"its head is {session.head}, and its last event is {head}"
            )
        self._verification.session(
            session.id, project=session.project, opened_at=session.opened_at, control=int(session.control), head=head,
            own=session.upto, position=checked.beyond if checked else None,
        )  # fmt: skip


class _Chain:
    """Checks the events of one session in order."""

    def __init__(self, verification: Verification, session: SessionLine, previous: bytes | None, covered: int) -> None:
        self.session = session
        self.beyond: int | None = None
        self._covered = covered
        self._verification = verification
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
        self._verification.report(f"session {self.session.id} seq {seq}", what)


def _bytes(text: str) -> bytes:
    """Decode hexadecimal; invalid text gives empty bytes, which match no digest."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
