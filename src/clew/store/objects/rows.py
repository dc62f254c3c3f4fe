"""Parts of packs as rows of the database: every machine that reaches the log reaches them, and a backup has them."""

from collections.abc import Iterable, Iterator

from clew.model.errors import NotFound
from clew.store.database.contract import Database, Transaction
from clew.store.objects.pack_store import Stray

# A body up to this compressed size costs no transaction of its own.
ROW_BYTES = 1024 * 1024
PAGE = 10_000


class Rows:
    """A row for each part. Its writer commits it before the transaction that names it."""

    name = ""
    row_bytes = ROW_BYTES

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, key: str, data: bytes, tx: Transaction | None = None) -> None:
        if tx is not None:
            tx.run("part_write", key=key, data=data)
            return
        with self._database.write() as own:
            own.run("part_write", key=key, data=data)

    def read(self, key: str, start: int, length: int) -> bytes:
        with self._database.read() as tx:
            rows = tx.run("part_read", key=key, start=start + 1, length=length)
        if not rows:
            raise NotFound(f"there is no {key} in the database")
        return bytes(rows[0][0])

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._database.write() as tx:
                tx.run("part_remove", key=key)

    def list(self, prefix: str) -> Iterator[Stray]:
        after = ""
        while True:
            with self._database.read() as tx:
                # `~` comes after every letter of a key.
                rows = tx.run("part_list", first=prefix, last=f"{prefix}~", after=after, limit=PAGE)
            for key, age_us in rows:
                yield Stray(key, age_us / 1_000_000)
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    def describe(self) -> str:
        return "the database"
