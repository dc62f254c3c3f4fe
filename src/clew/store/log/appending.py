"""Appending: requests are prepared outside any transaction, and many callers' requests share one commit."""

import time
from collections.abc import Iterable, Sequence

import msgspec

from clew.model.errors import BudgetExceeded, Busy, ClewError, StoreError, Unavailable
from clew.model.events import Draft
from clew.model.ids import check_name, new_id
from clew.model.session import Session
from clew.store.database.contract import Blobs, Database
from clew.store.log.group_commit import GroupCommit
from clew.store.log.heads import Heads
from clew.store.log.plan import Appended, Request
from clew.store.log.prepare import OWN_MARK, prepare
from clew.store.log.sessions import head_in
from clew.store.log.writing import append_all, append_from_memory

# How long an append tries again over a connection that was lost.
PATIENCE_SECONDS = 10.0


class Appender:
    """Appends for every caller of this process."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs
        self._group: GroupCommit[Request] = GroupCommit(self.commit)
        self._heads = Heads()

    def prepare(
        self, session: Session, drafts: Iterable[Draft], *, actor: str, expect: int | None, lease: int | None
    ) -> Request:
        check_name(actor, "the actor")
        return Request(session, [prepare(draft, self._blobs) for draft in drafts], actor, expect, lease)

    def append(self, request: Request) -> Appended:
        """Carry the request out together with those of other callers."""
        if not request.drafts:
            with self._database.read() as tx:
                return Appended(seqs=[], deduplicated=[], head=head_in(tx, request.session).head)
        if self._database.remote:
            self._submit_until_known(request)
        else:
            self._group.submit(request)
        return self.outcome(request)

    def outcome(self, request: Request) -> Appended:
        """What became of a request that was carried out, or the error that it ended with."""
        appended, session = request.outcome(), request.session
        if appended.exceeded:
            with self._database.read() as tx:
                head = head_in(tx, session)
            raise BudgetExceeded(
                f"session {session.id} has used {head.spent_tokens:,} tokens and ${head.spent_cost_micros / 1e6:.2f}, "
                "more than its budget; everything was stored and the session is paused: raise the budget, then "
                "resume it",
                session=session.id,
                seqs=appended.seqs,
                head=appended.head,
                spent_tokens=head.spent_tokens,
                spent_cost_micros=head.spent_cost_micros,
            )
        return appended

    def _submit_until_known(self, request: Request) -> None:
        """Append over a connection that can break during the commit: a source on every draft makes a retry safe."""
        request.drafts = [
            draft if draft.source else msgspec.structs.replace(draft, source=OWN_MARK + new_id())
            for draft in request.drafts
        ]
        request.unseen = frozenset(
            draft.source for draft in request.drafts if draft.source and draft.source.startswith(OWN_MARK)
        )
        end = time.monotonic() + PATIENCE_SECONDS
        pause = 0.05
        while True:
            self._group.submit(request)
            if not isinstance(request.error, Unavailable | Busy) or time.monotonic() + pause > end:
                return
            time.sleep(pause)  # Nothing tells when a server is back; connecting again is the only way to know.
            pause = min(pause * 2, 0.5)
            request.unseen = frozenset()
            request.error = request.result = None

    def commit(self, requests: Sequence[Request]) -> None:
        """Store all of them in one commit; every request ends with a result or with the error that kept it out."""
        left = list(requests)
        try:
            left = append_from_memory(self._database, requests, self._heads)
            if left:
                with self._database.write() as tx:
                    written = append_all(tx, left, self._blobs)
                for plan in written:
                    self._heads.keep(plan)
        except StoreError as error:
            for request in left:
                request.error = error
        except ClewError as error:
            # One request was refused after writing had begun: all was undone, so each is tried on its own.
            if len(left) == 1:
                left[0].error = error
                return
            for request in left:
                request.error = request.result = None
                self.commit([request])
        except BaseException:
            for request in left:
                request.error = StoreError("the commit was interrupted, its outcome is unknown; read before you retry")
            raise
