"""The heads that this process wrote last: what the next append can be planned against without reading."""

from clew.model.session import Head
from clew.store.log.plan import Plan


class Heads:
    """A cache of heads by session key.

    A head is used once it was found unchanged since this store's own last write, so that a session which several
    processes write is read again each time. A stale head costs a second try and nothing else: the write itself checks.
    """

    MOST = 10_000

    def __init__(self) -> None:
        self._heads: dict[int, tuple[Head, bool]] = {}

    def recall(self, key: int) -> Head | None:
        cached = self._heads.get(key)
        return cached[0] if cached is not None and cached[1] else None

    def keep(self, plan: Plan) -> None:
        key = plan.session.key
        last = self._heads.get(key)
        if last is None and len(self._heads) >= self.MOST:
            self._heads.clear()
        self._heads[key] = (plan.reached(), last is None or last[0].head == plan.start.head)

    def forget(self, key: int) -> None:
        cached = self._heads.get(key)
        if cached is not None:
            self._heads[key] = (cached[0], False)
