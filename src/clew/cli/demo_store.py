"""A store to look at: three weeks of a team of three with seven programs, made up, and the same each time.

Times count back from now, so that something is always running and something waits.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from clew.cli.demo_files import ADDED, CHECKED, EMPTIED, KEPT, TEST, VALIDATED, Kept
from clew.cli.demo_picture import picture
from clew.model import events as e
from clew.model.errors import BudgetExceeded
from clew.model.session import Session
from clew.service.kernel.call import call
from clew.service.kernel.context import Context
from clew.store.log.opening import Forking, Opening
from clew.store.objects import objects

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
PEOPLE = ("person:ada", "person:bo", "person:cy")
# The programs, and the models that they use.
PROGRAMS = {
    "claude-code": "claude-opus-4-5", "codex": "gpt-5.2-codex", "opencode": "claude-sonnet-4-5",
    "gemini-cli": "gemini-2.5-pro", "copilot-cli": "gpt-5.2", "pi": "claude-haiku-4-5", "qwen-code": "qwen3-coder",
}  # fmt: skip
WORK = {
    "shop": ("Why is the checkout slow on Mondays?", "Round prices the same way everywhere", "Add a filter for sizes",
             "The basket forgets its coupon", "Show stock in the list", "Write tests for refunds"),
    "billing": ("Move the invoices to the new schema", "Send reminders after 14 days", "Tax of two countries is wrong",
                "Export the year as CSV", "Continue the migration where Codex stopped"),
    "gateway": ("Review: rate limits for each key", "Retry with jitter", "Log the id of each request",
                "Health checks flap at night"),
    "docs": ("Explain the webhooks with an example", "Find dead links", "Rewrite the page on errors"),
}  # fmt: skip
# What an agent may do where, until when, and to whom it was given: a role, and a project or everything.
GRANTS = (
    ("bo", "writer", "shop", None), ("bo", "viewer", "gateway", 60), ("cy", "writer", "billing", None),
    ("team:core", "viewer", "docs", None), ("cy", "auditor", "", 30), ("agent:reviewer", "viewer", "gateway", 90),
)  # fmt: skip
FILES = ("src/app.py", "src/store.py", "src/prices.py", "tests/test_app.py", "README.md")
EDIT = {
    "file_path": "/home/ada/shop/src/store.py",
    "old_string": "    with self._lock:\n        rows = self._read()\n        return self._write(rows)\n",
    "new_string": "    rows = self._read()\n    with self._lock:\n        return self._write(rows)\n",
}
LOOP = "for i in $(seq 400); do\n  pytest -q tests/test_lock.py || exit 1\ndone"
KEEPS_FILES = "The basket forgets its coupon when something is added"
OUTPUT = (
    "\x1b[1m============ test session starts ============\x1b[0m\n"
    "tests/test_lock.py \x1b[32m.....\x1b[0m\x1b[31mF\x1b[0m\n"
    "\x1b[31mE   database is locked\x1b[0m\n"
    "\x1b[31m1 failed\x1b[0m, \x1b[32m5 passed\x1b[0m in 3.21s\n"
)
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


def fill(context: Context, *, days: int = 21, each_day: int = 3) -> Session:
    """Fill an empty store; returns the session that shows the most."""
    chance = random.Random(7)  # noqa: S311 - A made-up store hides nothing.
    now = context.store.now()
    for back in range(days, 0, -1):
        for number in range(1 + chance.randrange(each_day)):
            at = now - back * DAY + number * 2 * HOUR + chance.randrange(HOUR)
            _task(context, chance, at, end=chance.choice(("", "", "close", "close", "fork", "budget")))
    for back in range(30, 360, 11):
        _task(context, chance, now - back * DAY, end="close")
    _task(context, chance, now - 50 * MINUTE, end="pause")
    _task(context, chance, now - 5 * HOUR, end="fail")
    _task(context, chance, now - 2 * HOUR, end="over")
    call(context, "setting_set", {"name": "budget_month", "value": "$20"})
    call(context, "setting_set", {"name": "budget_week", "value": "400k tokens", "project": "shop"})
    running = _task(context, chance, now - 3 * MINUTE)
    _add(context, running, [e.CallMade(call="late", tool="shell", input=_json({"command": "make test"}))], now - MINUTE)
    session = _opened(context, "Why does the lock test fail now and then?", "shop", "claude-code", PEOPLE[0])
    _add(context, session, _long(), now - 40 * MINUTE, source="demo")
    _add(context, session, _pictured(context), now - 35 * MINUTE, source="picture")
    _other_ways(context, chance, session, now - 30 * MINUTE)
    _with_files(context, now - 90 * MINUTE)
    _share(context, session)
    return session


def _other_ways(context: Context, chance: random.Random, session: Session, at: int) -> None:
    """What else was tried from a session: a fork, a fork of that, and one that went on in another program."""
    elsewhere = {"runtime": "codex", "native": "demo-elsewhere", "resumed": ["/home/ada/.codex/sessions/demo.jsonl"]}
    second = _forked(context, session, 13, "A second connection instead", "{}")
    _add(context, second, list(_turns(chance, "Try the second connection", "claude-opus-4-5", "/home/ada/shop")), at)
    head = context.store.head(second).head
    pool = _forked(context, second, head - 1, "And a pool of connections", "{}")
    _add(context, pool, list(_turns(chance, "How large a pool?", "claude-opus-4-5", "/home/ada/shop")), at + MINUTE)
    codex = _forked(context, session, 22, "Measure on PostgreSQL", msgspec.json.encode(elsewhere).decode())
    turns = _turns(chance, "Measure it there", "gpt-5.2-codex", "/home/ada/shop")
    _add(context, codex, [_attached("codex", "shop"), *turns], at + 2 * MINUTE)


def _with_files(context: Context, at: int) -> None:
    """A session that kept its files after each turn, and a fork of it with files of its own."""
    session = _opened(context, KEEPS_FILES, "shop", "claude-code", PEOPLE[0])
    model = "claude-opus-4-5"
    files = Kept(context, session)

    def edited(id: str, old: str, new: str) -> list[e.Body]:
        edit = {"file_path": "/home/ada/shop/src/basket.py", "old_string": old, "new_string": new}
        return _called(id, "Edit", edit, "The file was updated.")

    def said(text: str) -> e.MessageAdded:
        return e.MessageAdded(role="assistant", text=text, model=model, usage=e.Usage(input=2_000, output=300))

    bodies: list[Any] = [files.keep("before"), e.MessageAdded(role="user", text="The basket forgets its coupon.")]
    files.write("src/basket.py", KEPT)
    bodies += [*edited("1", EMPTIED, ADDED), said("It was emptied with each article."), files.keep()]
    files.write("tests/test_basket.py", TEST)
    files.remove("src/__init__.py")
    bodies += [
        e.MessageAdded(role="user", text="And a test for it."),
        *_called("2", "Write", {"file_path": "/home/ada/shop/tests/test_basket.py", "content": TEST}, "Written."),
        *_called("3", "Bash", {"command": "git rm src/__init__.py && pytest -q"}, "1 passed"),
        said("The test fails without the change."), files.keep("with a test"),
    ]  # fmt: skip
    _add(context, session, bodies, at, source="files")
    fork = _forked(context, session, 7, "Check the coupon instead", "{}")
    files.write("src/basket.py", CHECKED)
    files.write("src/coupons.py", 'VALID = frozenset({"SPRING"})\n')
    more = [e.MessageAdded(role="user", text="Check whether it is still valid."), *edited("1", ADDED, VALIDATED)]
    _add(context, fork, [*more, said("It is checked with each article."), files.keep()], at + HOUR, source="files")
    files.close()


def _forked(context: Context, parent: Session, at: int, title: str, metadata: str) -> Session:
    return context.store.open(Forking(parent=parent, at=at, title=title, metadata=metadata), actor=context.principal)


def _share(context: Context, session: Session) -> None:
    """The team: who there is, what each may do and with which keys, and how their projects are kept."""
    for name, title in (("ada", "Ada Lovelace"), ("bo", "Bo Ek"), ("cy", "Cy Young"), ("agent:reviewer", ""),
                        ("service:ci", "builds")):  # fmt: skip
        call(context, "principal_add", {"principal": name, "title": title})
    for name in ("bo", "cy"):
        call(context, "team_add", {"name": "core", "principal": name})
    for who, role, project, days in GRANTS:
        call(context, "access_grant", {"who": who, "role": role, "project": project, "days": days})
    call(context, "share", {"session": session.id, "who": "cy", "days": 7})
    for name, label, scopes in (("ada", "laptop", None), ("agent:reviewer", "review", ["see", "read"]),
                                ("service:ci", "builds", ["see", "read", "append"])):  # fmt: skip
        call(context, "key_create", {"principal": name, "label": label, "scopes": scopes})
    call(context, "agent_register", {
        "name": "reviewer", "project": "gateway", "runtime": "claude-code", "model": "claude-opus-4-5",
        "tools": ["read", "grep"], "match_runtime": "claude-code", "match_path": "/home/ada/gateway"})  # fmt: skip
    call(context, "retention_set", {"project": "docs", "keep_days": 180})
    call(context, "retention_set", {"project": "billing", "hold": True})
    call(context, "setting_set", {"name": "secrets", "value": "mask", "project": "billing"})
    call(context, "setting_set", {"name": "audit_reads", "value": "on", "project": "billing"})
    call(context, "setting_set", {"name": "budget_month", "value": "$40"})
    for name, filters in (
        ("What cost the most", "since:30d sort:cost"),
        ("Failed calls in shop", "project:shop error:yes"),
    ):
        call(context, "view_save", {"name": name, "filters": filters})
    call(context, "setting_set", {"name": "workspaces", "value": "on", "project": "shop"})
    call(context, "setting_set", {"name": "workspace_quota", "value": "5 GB", "project": "shop"})
    call(context, "jobs_run", {"kind": "tidying"})
    call(context, "jobs_run", {"kind": "retention"})


def _task(context: Context, chance: random.Random, at: int, *, end: str = "") -> Session:
    """A session of some turns, and how it ended."""
    project = chance.choice(list(WORK))
    runtime, model = chance.choice(list(PROGRAMS.items()))
    session = _opened(context, chance.choice(WORK[project]), project, runtime, chance.choice(PEOPLE))
    _add(context, session, list(_turns(chance, session.title, model, f"/home/ada/{project}")), at)
    match end:
        case "close":
            call(context, "close", {"session": session.id, "summary": "Done, with tests."})
        case "pause":
            call(context, "pause", {"session": session.id, "reason": "waiting for a review"})
        case "budget":
            call(context, "budget", {"session": session.id, "usd": 5.0})
        case "over":
            with suppress(BudgetExceeded):  # All of it is stored, and the session is paused.
                call(context, "budget", {"session": session.id, "tokens": 1_000})
        case "fail":
            call(context, "close", {"session": session.id, "outcome": "failed", "summary": "The tests never passed."})
        case "fork":
            child = context.store.session(call(context, "fork", {"session": session.id}).id)
            again = _turns(chance, "Try it another way", model, f"/home/ada/{project}")
            _add(context, child, [_attached(runtime, project), *again], at + HOUR)
    return session


def _turns(chance: random.Random, title: str, model: str, folder: str) -> Iterator[e.Body]:
    for turn in range(1 + chance.randrange(4)):
        text = chance.choice(("Go on.", "And the tests?", "Good.")) if turn else title
        yield e.MessageAdded(role="user", text=text)
        for number in range(1 + chance.randrange(4)):
            id = f"{turn}-{number}"
            path = f"{folder}/{chance.choice(FILES)}"
            look = {"pattern": "def total", "path": folder}
            edit = {**EDIT, "file_path": path}
            tool, values = chance.choice(
                (("shell", {"command": "pytest -x"}), ("read", {"file_path": path}), ("grep", look), ("edit", edit))
            )
            yield from _called(id, tool, values, "ok", failed=chance.random() < 0.1)
        usage = e.Usage(
            input=2_000 + chance.randrange(9_000), output=200 + chance.randrange(2_000),
            cache_read=chance.randrange(90_000),
        )  # fmt: skip
        yield e.MessageAdded(
            role="assistant", text="Done; the tests pass.", model=model, usage=usage, message=f"{chance.random()}"
        )  # fmt: skip


def _long() -> list[e.Body | e.Opaque]:
    """Everything that a transcript shows."""
    model = "claude-opus-4-5"
    usage = e.Usage(input=4_200, output=900, cache_read=60_000, cost_micros=190_000)
    test = {"file_path": "/home/ada/shop/tests/test_lock.py"}
    failure = {"output": OUTPUT, "metadata": {"exit_code": 1}}
    return [
        e.MessageAdded(role="user", text="`tests/test_lock.py` fails now and then. Find out **why** and fix it."),
        e.MessageAdded(role="assistant", model=model, parts=(
            e.ThinkingPart(text="The test opens two connections. One of them could hold the lock while it reads."),
            e.TextPart(text="I look at the test first."))),
        *_called("1", "Read", test, "\n".join(map(str, range(80)))),
        *_called("2", "Grep", {"pattern": "self._lock", "path": "/home/ada/shop/src"}, "src/store.py:12"),
        *_called("3", "Bash", {"command": "pytest -x tests/test_lock.py"}, failure, failed=True),
        e.MessageAdded(role="assistant", text=ANSWER, model=model, usage=usage, message="m1"),
        e.DecisionMade(decision="d1", choice="Read outside of the lock", why="no second connection to close"),
        *_called("4", "Edit", EDIT, "The file was updated."),
        *_called("5", "Bash", {"command": LOOP}, "400 runs"),
        e.FactLearned(fact="f1", text="The lock test ran 400 times without a failure.", evidence=(12,)),
        e.ProgressNoted(done="The lock is held for writes alone", next="Measure commits per second"),
        e.Compacted(summary="The lock was held while reading. **Fixed** in `store.py`.", keep="demo-14"),
        e.MessageAdded(role="user", text="Good. Measure it before and after."),
        *_called("6", "Bash", {"command": "python bench/commits.py"}, "before  870\nafter  1204\n"),
        e.Opaque(kind="claude.progress", raw='{"percent":80,"note":"a record that nobody knows"}'),
        e.HandoffOffered(handoff="h1", to="codex", brief="measure on PostgreSQL"),
        e.MessageAdded(role="assistant", text="1,204 commits per second, before it were 870.", model=model, usage=usage,
                       message="m2"),
    ]  # fmt: skip


def _pictured(context: Context) -> list[e.Body]:
    """A turn with reads in a row, calls at once, and an image."""
    model = "claude-opus-4-5"
    image = e.ImagePart(blob=objects.put(context.store, [picture()]), media_type="image/png", name="commits.png")
    at_once = [e.CallMade(call=id, tool="Bash", input=_json({"command": command}), message="m3", model=model)
               for id, command in (("11", "ruff check"), ("12", "mypy src"))]  # fmt: skip
    looked = [
        body
        for number, file in enumerate(FILES[:4], 7)
        for body in _called(str(number), "Read", {"file_path": f"/home/ada/shop/{file}"}, "...")
    ]
    return [
        e.MessageAdded(role="user", text="Show it as a picture, and check the types."),
        *looked,
        *at_once,
        e.CallReturned(call="11", output=_json("All checks passed!")),
        e.CallReturned(call="12", output=_json("Success: no issues found")),
        e.CallMade(call="13", tool="Bash", input=_json({"command": "python bench/plot.py commits.png"})),
        e.CallReturned(call="13", output=_json("commits.png"), parts=(image,)),
        e.MessageAdded(
            role="assistant", model=model, message="m4", usage=e.Usage(input=3_100, output=240, cost_micros=52_000),
            parts=(e.TextPart(text="Commits per second, before and after:"), image),
        ),
    ]  # fmt: skip


def _called(id: str, tool: str, values: Any, output: Any, *, failed: bool = False) -> list[e.Body]:
    return [
        e.CallMade(call=id, tool=tool, input=_json(values)),
        e.CallReturned(call=id, output=_json(output), failed=failed),
    ]


def _opened(context: Context, title: str, project: str, runtime: str, person: str) -> Session:
    session = context.store.open(Opening(project=project, agent=runtime, title=title), actor=person)
    context.store.append(session, [e.Draft(body=_attached(runtime, project))], actor=person)
    return session


def _attached(runtime: str, project: str) -> e.RuntimeAttached:
    return e.RuntimeAttached(runtime=runtime, cwd=f"/home/ada/{project}", machine="laptop")


def _add(context: Context, session: Session, bodies: list[Any], at: int, *, source: str = "") -> None:
    """Append bodies that were said one after the other."""
    drafts = [
        e.Draft(body=body, said_at=at + number * 1_300_000, source=f"{source or at}-{number}")
        for number, body in enumerate(bodies, 1)
    ]
    context.store.append(session, drafts, actor=session.owner or PEOPLE[0])


def _json(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
