"""Every component and token on one page, for whoever builds the next page."""

from datetime import date

from clew.runtimes.changes import Line
from clew.server.web.charts import bars, heat_map
from clew.server.web.page_request import Page, PageRequest
from clew.server.web.text.ansi import coloured

EXAMPLE = """The lock is taken **before** the read, so `append` waits:

```python
def append(self, drafts: list[Draft]) -> int:
    with self._lock:  # one writer
        return self._write(drafts, at=time.time())
```

| database | commits |
| --- | --- |
| SQLite | 1,204 |

1. read the [docs](https://example.org/docs)
2. > measure first
"""
TERMINAL = "\x1b[32m12 passed\x1b[0m, \x1b[1;31m1 failed\x1b[0m in 3.2 s\n\x1b[33mwarning:\x1b[0m the disk is 90 % full"
DIFF = [
    Line(" def total(rows):", "output"), Line("-    return sum(rows)", "removed"),
    Line("+    return sum(row.price for row in rows)", "added"),
]  # fmt: skip
DAY = date(2026, 11, 19)


def design(request: PageRequest) -> Page:
    days = {str(DAY.replace(month=1 + number % 11, day=1 + number % 28)): number % 9 for number in range(180)}
    rows = [(f"2026-11-{day:02}", [("opus", day * 3 % 17), ("haiku", day * 5 % 7)]) for day in range(1, 20)]
    return Page(
        "design/page.html",
        {
            "markdown": EXAMPLE, "terminal": coloured(TERMINAL), "diff": DIFF, "heat": heat_map(days, DAY),
            "bars": bars(rows, ["opus", "haiku"]), "series": ["opus", "haiku"],
        },
    )  # fmt: skip
