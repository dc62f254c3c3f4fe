"""Stop a program that has a database open when a newer program migrates it.

Its statements and its rules are those of the older schema: it would fail in the middle of something, or write rows that
the newer program does not expect.
"""

from collections.abc import Sequence

from clew.model.errors import SchemaNewer
from clew.store.database.contract import Row


def check_fence(rows: Sequence[Row], known: int) -> None:
    """Raise when the newest version in the database, as its only row says, is beyond the one that is known."""
    [(found,)] = rows
    if isinstance(found, int) and found > known:
        raise SchemaNewer(
            f"a newer clew has migrated this database to schema {found} while this program ran, which knows schemas up "
            f"to {known}: restart it with the newer clew; nothing was written",
            found=found,
            expected=known,
        )
