"""How PostgreSQL would carry out the statements of the views."""

from clew.model.query import parse
from clew.views.text import PROJECT, ROLE, match, tag
from clew.views.upkeep import Views

FAR = 2**62
WHOLE = ("passage", "listing", "touched")


def scans(views: Views) -> list[str]:
    """The statements whose plan reads a whole table, with the table."""
    words = match("pg", parse("ba be"))
    tagged = match("pg", parse("ba be"), tags=[tag(ROLE, "asked"), tag(PROJECT, 1)])
    page = {"before": FAR, "first": 0, "limit": 50}
    listing = {"before_at": FAR, "before": FAR, "limit": 50}
    statements: list[tuple[str, dict[str, object]]] = [
        ("hits", {"match": words, **page}),
        ("hits", {"match": tagged, **page, "since": 1, "until": FAR}),
        ("hits", {"match": words, **page, "state": "paused"}),
        ("hits_count", {"match": words, **page}),
        ("passages", page),
        ("sessions_page", listing),
        *(("sessions_page", {**listing, name: value}) for name, value in (
            ("project", 1), ("agent", "agent1"), ("person", "person:ada"), ("runtime", "codex"), ("state", "active"),
            ("machine", "m1"), ("since", 1), ("until", FAR), ("failed", 1), ("keys", "[1, 2]"),
        )),
        ("sessions_row", {"session": 1}),
        ("files_by_name", {"name": "billing.py", "limit": 50}),
        ("passage_last", {"first": 0, "beyond": FAR}),
        ("speaking_of", {"session": 1}),
    ]  # fmt: skip
    found = []
    with views.read() as tx:
        for name, parameters in statements:
            text = tx._queries.get(name) or tx._optional[name].given(parameters)  # type: ignore[attr-defined]
            plan = "\n".join(
                row[0]
                for row in tx.connection.execute(f"EXPLAIN {text}".encode(), parameters)  # type: ignore[attr-defined]
            )
            found += [f"{name}: {table}" for table in WHOLE if f"Seq Scan on {table}" in plan]
    return found
