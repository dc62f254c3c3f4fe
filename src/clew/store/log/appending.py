"""Appending: requests are prepared outside any transaction, and many callers' requests share one commit."""

import time
from collections.abc import Iterable, Sequence

import msgspec

from clew.model.errors import Busy, ClewError, StoreError, Unavailable
from clew.model.events import Draft
from clew.model.ids import check_name, new_id
from clew.model.session import Session
from clew.store.database.contract import Database
from clew.store.log.group_commit import GroupCommit
from clew.store.log.heads import Heads
from clew.store.log.plan import Appended, Request
from clew.store.log.prepare import OWN_MARK, prepare
from clew.store.log.sessions import head_in
from clew.store.log.writing import append_all, append_from_memory
from clew.store.objects.pack_store import PackStores

# How long an append tries again over a connection that was lost.
PATIENCE_SECONDS = 10.0


class Appender:
    """Appends for every caller of this process."""

    def __init__(self, database: Database, pack_stores: PackStores) -> None:
        self._database = database
        self._pack_stores = pack_stores
        self._group: GroupCommit[Request] = GroupCommit(self._commit_together)
        self._heads = Heads()

    def prepare(
        self, session: Session, drafts: Iterable[Draft], *, actor: str, expect: int | None, lease: int | None
    ) -> Request:
        """Encode and check the drafts, outside any transaction."""
        check_name(actor, "the actor")
        return Request(session, [prepare(draft, self._pack_stores) for draft in drafts], actor, expect, lease)

    def append(self, request: Request) -> Appended:
        """Commit one request and return its outcome."""
        if not request.drafts:
            with self._database.read() as tx:
                return Appended(seqs=[], deduplicated=[], head=head_in(tx, request.session).head)
        self.commit((request,))
        return request.outcome()

    def commit(self, requests: Sequence[Request]) -> None:
        """Store the requests in one commit, together with those of other callers; each keeps its outcome."""
        if self._database.remote:
            self._commit_until_known(requests)
        elif requests:
            self._group.submit(requests)

    def _commit_until_known(self, requests: Sequence[Request]) -> None:
        """Commit over a connection that can break during the commit: a source on every draft makes a retry safe."""
        for request in requests:
            request.drafts = [
                draft if draft.source else msgspec.structs.replace(draft, source=OWN_MARK + new_id())
                for draft in request.drafts
            ]
            request.unseen = frozenset(
                draft.source for draft in request.drafts if draft.source and draft.source.startswith(OWN_MARK)
            )
        end = time.monotonic() + PATIENCE_SECONDS
        pause = 0.05
        while requests:
            self._group.submit(requests)
            requests = [request for request in requests if isinstance(request.error, Unavailable | Busy)]
            if not requests or time.monotonic() + pause > end:
                return
            time.sleep(pause)  # No event reports that a server is back, so this polls by connecting.
            pause = min(pause * 2, 0.5)
            for request in requests:
                request.unseen = frozenset()
                request.error = request.result = None

    def _commit_together(self, requests: Sequence[Request]) -> None:
        """Store all of them in one transaction; every request ends with a result or with the error that kept it out."""
        left = requests
        try:
            left = append_from_memory(self._database, requests, self._heads)
            if left:
                with self._database.write() as tx:
                    written = append_all(tx, left, self._pack_stores)
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
                self._commit_together([request])
        except BaseException:
            for request in left:
                request.error = StoreError("the commit was interrupted, its outcome is unknown; read before you retry")
            raise
