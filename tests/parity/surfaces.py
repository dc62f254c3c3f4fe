"""The surfaces, each as one function: a question in, the answer or the refusal out, as JSON."""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import msgspec

from clew.cli import run as commands
from clew.model import codec
from clew.model.errors import ClewError
from clew.remote import Remote
from clew.service import Context, call
from clew.service.kernel.registry import load
from clew.service.kernel.results import to_json
from isolation.tenants import Question


class Answer(NamedTuple):
    """What came back: the code of a refusal or nothing, and the text."""

    code: str
    text: str


def refused(error: ClewError) -> Answer:
    return Answer(error.code, codec.to_json({"message": str(error), **error.details}))


def over_python(enter: Callable[[], Context], question: Question) -> Answer:
    try:
        return Answer("", to_json(call(enter(), question.operation, question.arguments)).decode())
    except ClewError as error:
        return refused(error)


def over_http(client: httpx2.Client, question: Question) -> Answer:
    """The question as a request of its operation's route."""
    method, _, path = load()[question.operation].route.partition(" ")
    rest = dict(question.arguments)
    for name in re.findall(r"\{(\w+)\}", path):
        path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
    if method in ("GET", "DELETE"):
        answer = client.request(method, f"/v1{path}", params={name: _plain(value) for name, value in rest.items()})
    else:
        answer = client.request(method, f"/v1{path}", json=rest)
    if answer.status_code < 300:
        return Answer("", answer.text or "null")
    told = msgspec.json.decode(answer.content, type=dict[str, Any])
    details = {name: value for name, value in told.items() if name not in PROBLEM}
    return Answer(told["code"], codec.to_json({"message": told["detail"], **details}))


PROBLEM = ("type", "title", "status", "detail", "code", "instance", "request")


def _plain(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


_VOLATILE = (
    (re.compile(r"\b[0-9a-z]{20}\b"), "id"),
    (
        re.compile(
            r'"(at|due_at|made_at|said_at|ended_at|duration_us|until|used_at|opened_at|last_at|began_at|stored_at|lease_until|exported_at|position)":\d+'
        ),
        r'"\1":0',
    ),
    (re.compile(r"(clew:\w+:\d+):[0-9a-f]{8}"), r"\1"),
    (re.compile(r"clew_(person|agent|service|link)_\w+"), "token"),
    (re.compile(r"\b[0-9A-Za-z]{12}\b"), "key"),
    (re.compile(r"[0-9a-f]{64}"), "digest"),
    (re.compile(r"[A-Za-z0-9+/]{60,}={0,2}"), "bytes"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.Z+:]*"), "time"),
    (re.compile(r"for another [\d.]+ s"), "for another moment"),
)


def comparable(question: Question, answer: Answer) -> Answer:
    """An answer without what differs from one run of the same questions to the next."""
    text = answer.text
    for value in question.arguments.values():
        if isinstance(value, str):
            text = text.replace(value, "?")
    for pattern, instead in _VOLATILE:
        text = pattern.sub(instead, text)
    if question.operation in ("key_list", "access_held"):
        # It is sorted by principal, and the names of links are random.
        text = "".join(sorted(re.split(r"(?<=})[,\n]|[][]", text)))
    return Answer(answer.code, text)


def over_remote(remote: Remote, question: Question) -> Answer:
    """The question through the Python client of a server."""
    try:
        return Answer("", to_json(remote.call(question.operation, **question.arguments)).decode())
    except ClewError as error:
        return refused(error)


# Commands that are written by hand, because presentation matters. Each tells the same as its operation, in lines.
BY_HAND: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "show": lambda given: ["show", given["session"]],
    "events": lambda given: ["show", given["session"], "--events"],
    "append": lambda given: ["append", given["session"]],
    "erase": lambda given: ["erase", given["session"], "--yes"],
    "privacy": lambda given: ["privacy", given["session"], "--private" if given.get("private") else "--open"],
    "title": lambda given: ["title", given["session"], given["title"]],
    "tag": lambda given: ["tag", given["session"], *given["tags"]],
    "note": lambda given: ["note", given["session"], given["text"]],
    "notes": lambda given: ["note", given["session"]],
    "note_remove": lambda given: ["note", given["session"], "--remove", given["note"]],
    "archive": lambda given: ["archive", given["session"]],
    "share": lambda given: ["share", given["session"], given["who"]],
    "resume": lambda given: ["resume", given["session"]],
    "jobs": lambda given: ["jobs", *_options(given)],
    "jobs_retry": lambda given: ["jobs", "retry", given["job"]],
    "jobs_run": lambda given: ["jobs", "run", *_options(given, "kind"), given["kind"]],
    "usage": lambda given: ["usage", *_options(given)],
    "usage_blocks": lambda given: ["usage", "--blocks", *_options(given)],
    "object_list": lambda given: ["object", "list", given["session"]],
    "object_stat": lambda given: ["object", "stat", given["session"], given["object"]],
    "artifact_list": lambda given: ["artifact", "list", *_options(given)],
    "artifact_versions": lambda given: ["artifact", "versions", *_options(given, "name"), given["name"]],
    "workspace_tree": lambda given: ["workspace", "tree", given["session"]],
    "workspace_log": lambda given: ["workspace", "log", given["session"]],
    "workspace_cat": lambda given: ["workspace", "cat", given["session"], given["path"]],
    "workspace_diff": lambda given: ["workspace", "diff", given["left"], *filter(None, [given.get("right")])],
    "blame": lambda given: ["blame", *_options(given, "path"), given["path"]],
    "commit": lambda given: ["commit", *_options(given, "sha"), *filter(None, [given.get("sha")])],
    "verify": lambda given: ["verify", *filter(None, [given.get("session")])],
    "verify_objects": lambda given: ["verify", "--objects", *(["--dry-run"] if given.get("dry_run") else [])],
    "workspace_usage": lambda given: ["workspace", "usage", *_options(given)],
    "workspace_thin": lambda given: ["workspace", "thin", *_options(given)],
    "workspace_gc": lambda given: ["workspace", "gc"],
    "fork": lambda given: ["fork", *_options(given, "session"), given["session"]],
    "diff": lambda given: ["diff", *_options(given, "left", "right"), given["left"], given["right"]],
}


def _options(given: dict[str, Any], *besides: str) -> list[str]:
    return [word for name, value in given.items() if name not in besides for word in (f"--{name}", str(value))]


def words_of(question: Question) -> list[str] | None:
    """The question as a command line; None where the command shows something of its own."""
    operation = load()[question.operation]
    if operation.name == "blame" and "session" not in question.arguments:
        return None  # A file of this machine, with its whole path.
    if operation.name in BY_HAND:
        return [*BY_HAND[operation.name](question.arguments), "--json"]
    group = operation.group
    words = [operation.name] if group is None else [group.name, operation.command]
    by_hand = commands.written_by_hand()
    if operation.hidden or words[0] in by_hand:
        return None
    options: list[str] = ["--yes"] if operation.warning else []
    positional: list[str] = []
    for parameter in operation.parameters:
        if parameter.name not in question.arguments:
            continue
        value = _plain(question.arguments[parameter.name])
        if parameter.required or not parameter.by_name:
            positional.append(str(value))
        else:
            options += [f"--{parameter.name.replace('_', '-')}", str(value)]
    return [*words, *options, "--json", "--", *positional]


def over_cli(question: Question, words: list[str], capture: Callable[[], tuple[str, str]]) -> Answer:
    """The question as a command; what is printed is one object per line."""
    given = question.arguments.get("drafts", [])
    with patched(["clew", *words], "".join(f"{msgspec.json.encode(draft).decode()}\n" for draft in given)):
        code = commands.run()
    out, err = capture()
    if code:
        told = msgspec.json.decode(err.splitlines()[-1], type=dict[str, Any])
        return Answer(told.pop("error"), codec.to_json(told))
    return Answer("", out)


@contextmanager
def patched(argv: list[str], stdin: str) -> Iterator[None]:
    """The command line and the standard input of a program, for a moment."""
    before, keyboard = sys.argv, sys.stdin
    with tempfile.TemporaryFile("w+") as file:
        file.write(stdin)
        file.seek(0)
        sys.argv, sys.stdin = argv, file
        try:
            yield
        finally:
            sys.argv, sys.stdin = before, keyboard


def in_lines(text: str, operation: str) -> str:
    """An answer as a command prints it: a line for each of a list, `done` for nothing, seqs for an append."""
    value = msgspec.json.decode(text)
    if operation == "append":
        return "".join(f'{{"seq":{seq}}}\n' for seq in value["seqs"])
    if value is None:
        return codec.to_json({"done": operation}) + "\n"
    rows = (
        msgspec.json.decode(text, type=list[msgspec.Raw]) if isinstance(value, list) else [msgspec.Raw(text.encode())]
    )
    return "".join(f"{bytes(row).decode()}\n" for row in rows)
