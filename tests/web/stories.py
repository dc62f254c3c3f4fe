"""A store as a team would have it: the sample files of each program, captured, and sessions with all a page shows."""

import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from clew.client import Plane
from clew.local import Local
from clew.model import events as e
from clew.model.session import Session
from clew.service import Context
from support.samples import samples
from support.talks import add, opened

PROGRAMS = ("claude-code", "codex", "opencode", "gemini-cli", "copilot-cli", "pi", "qwen-code")
MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
ANSWER = """The lock is taken **before** the read, so `append` waits for the reader. Two ways out:

1. keep the read outside of the lock, as in [the docs](https://example.org/locks)
2. use a second connection

```python
def append(self, drafts: list[Draft]) -> int:
    with self._lock:  # one writer at a time
        return self._write(drafts, limit=100)
```

| way | commits per second |
| --- | ---: |
| outside | 1,204 |
| second connection | 870 |

> The test fails once in a hundred runs, so I ran it 400 times.
"""
LOOP = "for i in $(seq 400); do\n  pytest -q tests/test_lock.py || exit 1\ndone"
OUTPUT = (
    "\x1b[1m============ test session starts ============\x1b[0m\n"
    "tests/test_lock.py \x1b[32m.....\x1b[0m\x1b[31mF\x1b[0m\n"
    "\x1b[31mE   database is locked\x1b[0m\n"
    "\x1b[31m1 failed\x1b[0m, \x1b[32m5 passed\x1b[0m in 3.21s\n"
)


def capture_samples(context: Context, folder: Path) -> None:
    """Capture the sample files of each program, as they lie in a home."""
    for program in PROGRAMS:
        for name, data in samples(program).items():
            path = folder / program / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        paths = [str(folder / program)]
        list(Plane(Local(context)).capture(paths, runtime=program))


def tell(context: Context) -> Session:
    """A long session with everything that a transcript shows; returns it."""
    now = time.time_ns() // 1000
    for back in (1, 2, 3, 5, 8, 13, 40, 90, 200, 300):
        _small(context, f"Move the invoices to the new schema, part {back}", now - back * DAY, project="billing")
    _small(context, "Review: rate limits for each key", now - 3 * MINUTE, project="gateway", runtime="gemini-cli")
    running = _small(context, "Continue the migration where Codex stopped", now - MINUTE, project="billing")
    add(context, running, e.CallMade(call="late", tool="Bash", input=Raw(b'{"command":"make test"}')))
    session = opened(context, project="shop", agent="claude-code", title="Why does the lock test fail now and then?")
    add(context, session, e.RuntimeAttached(runtime="claude-code", cwd="/home/ada/shop", machine="laptop"))
    clock = _Clock(now - 40 * MINUTE)
    add(context, session, *[clock.draft(body) for body in _long()])
    return session


def _small(context: Context, title: str, at: int, *, project: str, runtime: str = "codex") -> Session:
    session = opened(context, project=project, agent=runtime, title=title)
    add(context, session, e.RuntimeAttached(runtime=runtime, cwd=f"/home/ada/{project}", machine="laptop"))
    clock = _Clock(at)
    usage = e.Usage(input=9_000, output=1_400, cache_read=80_000, cost_micros=210_000)
    bodies = (
        e.MessageAdded(role="user", text=f"{title}, please"),
        e.CallMade(call="1", tool="shell", input=Raw(b'{"command":["bash","-lc","pytest -x"]}')),
        e.CallReturned(call="1", output=Raw(b'"12 passed"')),
        e.MessageAdded(
            role="assistant", text="Done; the tests pass.", model="gpt-5.2-codex", usage=usage, message=title
        ),
    )
    add(context, session, *[clock.draft(body) for body in bodies])
    return session


class _Clock:
    """Gives each draft the next time by the runtime's clock."""

    def __init__(self, at: int) -> None:
        self._at = at
        self._number = 0

    def draft(self, body: e.Body | e.Opaque) -> e.Draft:
        self._at += 1_300_000
        self._number += 1
        return e.Draft(body=body, said_at=self._at, source=f"record-{self._number}")


def _json(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _call(id: str, tool: str, values: Any, output: Any, *, failed: bool = False, **more: Any) -> list[e.Body]:
    return [
        e.CallMade(call=id, tool=tool, input=_json(values), model="claude-opus-4-5", **more),
        e.CallReturned(call=id, output=_json(output), failed=failed),
    ]


def _long() -> list[e.Body | e.Opaque]:
    usage = e.Usage(input=4_200, output=900, cache_read=60_000, cost_micros=190_000)
    edit = {
        "file_path": "/home/ada/shop/src/store.py",
        "old_string": "    with self._lock:\n        rows = self._read()\n        return self._write(rows)\n",
        "new_string": "    rows = self._read()\n    with self._lock:\n        return self._write(rows)\n",
    }
    return [
        e.MessageAdded(role="user", text="`tests/test_lock.py` fails now and then. Find out **why** and fix it."),
        e.MessageAdded(role="assistant", model="claude-opus-4-5", parts=(
            e.ThinkingPart(text="The test opens two connections. One of them could hold the lock while it reads."),
            e.TextPart(text="I look at the test first."))),
        *_call("1", "Read", {"file_path": "/home/ada/shop/tests/test_lock.py"}, "\n".join(map(str, range(80)))),
        *_call("2", "Grep", {"pattern": "self._lock", "path": "/home/ada/shop/src"}, "src/store.py:12"),
        *_call("3", "Bash", {"command": "pytest -x tests/test_lock.py"},
               {"output": OUTPUT, "metadata": {"exit_code": 1}}, failed=True),
        e.MessageAdded(role="assistant", text=ANSWER, model="claude-opus-4-5", usage=usage, message="m1"),
        e.DecisionMade(decision="d1", choice="Read outside of the lock", why="no second connection to close"),
        *_call("4", "Edit", edit, "The file was updated."),
        *_call("5", "Bash", {"command": LOOP}, "400 runs"),
        e.FactLearned(fact="f1", text="The lock test ran 400 times without a failure.", evidence=(12,)),
        e.ProgressNoted(done="The lock is held for writes alone", next="Measure commits per second"),
        e.Compacted(summary="The lock was held while reading. **Fixed** in `store.py`.", keep="record-14"),
        e.MessageAdded(role="user", text="Good. Measure it before and after."),
        *_call("6", "Bash", {"command": "python bench/commits.py"}, "before  870\nafter  1204\n"),
        e.Opaque(kind="claude.progress", raw='{"percent":80,"note":"a record that nobody knows"}'),
        e.HandoffOffered(handoff="h1", to="codex", brief="measure on PostgreSQL"),
        e.MessageAdded(role="assistant", text="1,204 commits per second, before it were 870.", model="claude-opus-4-5",
                       usage=usage, message="m2"),
    ]  # fmt: skip
