"""The schema and its history. schema.sql is the sum of migrations/*.sql; a test compares the two on both databases.

An empty database gets the schema whole. An older one is migrated step by step, each step all or nothing. A newer one is
refused: this program does not know what it would break. A newer program may migrate the database while this one has it
open, so every later write looks at the version, too (`fence`).
"""

import re
from typing import NamedTuple

from clew.model.errors import SchemaNewer, SchemaOutdated
from clew.store.database.contract import Database
from clew.store.database.statements import folder, in_words

RECORD = """
CREATE TABLE IF NOT EXISTS clew_schema (version BIGINT PRIMARY KEY, at BIGINT NOT NULL);
INSERT INTO clew_schema (version, at) VALUES (VERSION, {now});
"""


class Migration(NamedTuple):
    version: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """Every step, oldest first."""
    files = (folder("clew.store.database") / "migrations").iterdir()
    steps = sorted(path for path in files if re.fullmatch(r"\d{4}_\w+\.sql", path.name))
    return [Migration(int(step.name[:4]), step.stem[5:], step.read_text("utf-8")) for step in steps]


def schema() -> str:
    return (folder("clew.store.database") / "schema.sql").read_text("utf-8")


def current() -> int:
    """The version this program writes."""
    return migrations()[-1].version


def prepare(database: Database, *, upgrade: bool) -> None:
    """Bring the database to this program's schema, or raise the reason why not."""
    stored, wanted = database.schema_version(), current()
    _refuse_newer(stored, wanted)
    if stored == wanted:
        pass
    elif stored == 0:
        _create(database, wanted)
    elif upgrade:
        migrate(database)
    else:
        raise SchemaOutdated(
            f"this database has schema {stored} and this program needs {wanted}; migrate it once, when no older "
            "clew uses it any more",
            found=stored,
            expected=wanted,
        )
    database.fence(wanted)


def migrate(database: Database) -> list[str]:
    """Apply the missing steps; returns their names."""
    _refuse_newer(database.schema_version(), current())
    done = []
    for step in migrations():
        if step.version > database.schema_version():
            _apply(database, step.text, step.version)
            done.append(step.name)
    return done


def _refuse_newer(stored: int, wanted: int) -> None:
    if stored > wanted:
        raise SchemaNewer(
            f"this database has schema {stored}, made by a newer clew; this program knows schemas up to {wanted}: "
            "upgrade clew; nothing was changed",
            found=stored,
            expected=wanted,
        )


def _create(database: Database, version: int) -> None:
    _apply(database, schema(), version)


def _apply(database: Database, text: str, version: int) -> None:
    database.apply_schema(in_words(text + RECORD.replace("VERSION", str(version)), database.dialect), version)
