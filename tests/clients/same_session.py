"""Whether a session that clew has written says the same to the model as the session that its client resumes itself.

    python -m clients.same_session FOLDER [--only NAME] [--keep DIR]

Every file below FOLDER that a client can resume is resumed twice with that client, each time in a home of its own: the
file itself, and what `clew import` and `clew resume` make of it. The texts, calls and results of the two requests are
compared in order; working directories, and what clients add to a prompt of their own, do not count. Ends with 1 when a
session differs.
"""

import argparse
import json
import re
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from clients.clew_cli import Clew
from clients.drivers import CLIENTS, Client, Pi, Place, Ran
from clients.model_server import ModelServer, scripted
from clients.wire import Answer, Item

PROMPT = scripted("Go on, please.", Answer("Gone on."))
# What clients put beside prompts: it is theirs, and the same for both homes or not. So is what Claude Code says of
# commands that it finds unfinished in its own file ("orphans"); other notes about tasks are part of a session.
CONTEXT = re.compile(
    r"\s*(<system-reminder>(?!.*<task-notification>(?!.*__orphan_summary__))|<environment_context>|<user_instructions>|"
    r"<reminder>|<session_context>|# AGENTS\.md|This is the Gemini CLI|This is the Qwen Code|<permissions|</?image\b)",
    re.DOTALL,
)  # fmt: skip


# What clients put into a prompt, and clew into a conversation that has no beginning.
BESIDE = re.compile(
    r"<current_datetime>.*?</current_datetime>|<system_reminder>.*?</system_reminder>|<reminder>.*?</reminder>|"
    r"\[The beginning of this session was not recorded\.\]|"
    # What stands in for a result that was never recorded.
    r"\[Tool call interrupted: [^\]]*\]|\[No result was recorded: [^\]]*\]", re.DOTALL
)  # fmt: skip
# Notes of a client in the place of an answer: clew keeps them as marks.
MARKS = re.compile(r"No response requested\.|API Error|Prompt is too long")
THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


class Line(NamedTuple):
    """One text, call or result as a request tells it; `key` is compared."""

    kind: str
    key: str


class Compared(NamedTuple):
    """What became of one file: its texts, calls and results by the client and by clew, and what differs."""

    file: str
    runtime: str
    verdict: str
    counts: tuple[tuple[str, int, int], ...] = ()
    why: str = ""


# How a file is laid where its client looks for it. Each returns the id by which the client resumes it.


def _claude(file: Path, place: Place) -> str:
    native, file = _with_uuid(file, _first(file, "sessionId") or file.stem, place)
    _put(file, place.home / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", str(place.cwd)) / f"{native}.jsonl")
    return native


def _codex(file: Path, place: Place) -> str:
    """Codex resumes only with the provider that it began with."""
    meta = next((r["payload"] for r in _records(file) if r.get("type") == "session_meta"), None)
    native, file = _with_uuid(file, str((meta or next(_records(file))).get("id")), place)
    text = re.sub(r'"model_provider":\s*"\w+"', '"model_provider":"scripted"', file.read_text(encoding="utf-8"))
    file = place.temporary / "rollout.jsonl"
    file.write_text(text, encoding="utf-8")
    _put(file, place.home / f".codex/sessions/2026/11/16/rollout-2026-11-16T10-00-00-{native}.jsonl")
    return native


def _copilot(file: Path, place: Place) -> str:
    start = next(r for r in _records(file) if r.get("type") == "session.start")
    native = str(start["data"]["sessionId"])
    _put(file, place.home / f".copilot/session-state/{native}/events.jsonl")
    return native


def _pi(file: Path, place: Place) -> str:
    """pi refuses a session whose directory is not there."""
    path = place.home / "session.jsonl"
    header, _, rest = file.read_text(encoding="utf-8").partition("\n")
    path.write_text(f"{json.dumps({**json.loads(header), 'cwd': str(place.cwd)})}\n{rest}", encoding="utf-8")
    return str(path)


def _qwen(file: Path, place: Place) -> str:
    """Qwen Code resumes only what began in the same directory."""
    native = _first(file, "sessionId") or file.stem
    text = file.read_text(encoding="utf-8")
    for directory in _directories(file)[:1]:
        text = text.replace(json.dumps(directory), json.dumps(str(place.cwd)))
    file = place.temporary / "chat.jsonl"
    file.write_text(text, encoding="utf-8")
    folder = re.sub("[^A-Za-z0-9]", "-", str(place.cwd))
    _put(file, place.home / f".qwen/projects/{folder}/chats/{native}.jsonl")
    return native


def _gemini(file: Path, place: Place) -> str:
    """Gemini gives every directory a folder, at the first session in it."""
    client = CLIENTS["gemini-cli"]
    with ModelServer() as model:
        client.start(place, model.url, PROMPT).checked()
    [folder] = (place.home / ".gemini/tmp").glob("*/chats")
    for path in folder.iterdir():
        path.unlink()
    text = file.read_text(encoding="utf-8")
    native, kind = _first(file, "sessionId") or json.loads(text)["sessionId"], "jsonl"
    if not _is_lines(text):
        kind = "json"
    _put(file, folder / f"session-2026-01-01T00-00-{native[:8]}.{kind}")
    return str(native)


PUT: dict[str, Callable[[Path, Place], str]] = {
    "claude-code": _claude, "codex": _codex, "copilot-cli": _copilot, "pi": _pi, "qwen-code": _qwen,
    "gemini-cli": _gemini,
}  # fmt: skip


class BoundlessPi(Pi):
    """pi with a model that takes everything, so that it compacts nothing of its own."""

    def settings(self, url: str) -> dict[str, str]:
        return {name: text.replace("100000", "9000000") for name, text in super().settings(url).items()}


BOUNDLESS: dict[str, Client] = {"pi": BoundlessPi()}


def compare(file: Path, folder: Path) -> Compared:
    """Resume a file by its client itself, and through clew; compare what the two tell the model."""
    clew = Clew(folder / "store")
    report = clew.import_file(file)
    client = BOUNDLESS.get(report.runtime) or CLIENTS.get(report.runtime)
    name = file.name[-60:]
    if client is None or report.runtime not in PUT:
        return Compared(name, report.runtime, "no client resumes it")
    places = Place(folder / "own"), Place(folder / "clew")
    native = PUT[client.runtime](file, places[0])
    own, ran = _resumed(client, places[0], client.interactive_resume(native))
    directories = _directories(file)
    by_client = _lines(own, [str(places[0].cwd), *directories], twice=client.repeats_results)
    if not by_client:
        return Compared(name, client.runtime, "its client does not resume it", why=_last_words(ran))
    with ModelServer() as model:
        environment = client.environment(places[1], model.url)
    written = clew.resume_in(report.session, client.runtime, cwd=places[1].cwd, env=environment)
    again, ran = _resumed(client, places[1], written.command)
    by_clew = _lines(again, [str(places[1].cwd), *directories], twice=False)
    own_kinds, kinds = Counter(line.kind for line in by_client), Counter(line.kind for line in by_clew)
    counts = tuple((kind, own_kinds[kind], kinds[kind]) for kind in own_kinds | kinds)
    why = _difference(by_client, by_clew) if by_clew else _last_words(ran)
    return Compared(name, client.runtime, "differs" if why else "same", counts, why)


def _resumed(client: Client, place: Place, command: list[str]) -> tuple[list[Item], Ran]:
    """What the model is told in the first request of a resumed session; nothing if there is none."""
    with ModelServer() as model:
        ran = client.run(place, model.url, client.headless(command, PROMPT))
        requests = model.told(PROMPT)
    return (requests[0] if requests else []), ran


def _lines(items: list[Item], directories: list[str], *, twice: bool) -> list[Line]:
    """The texts, calls and results before the last prompt, without what clients add and without directories.

    `twice`: the client tells the results of its own sessions twice.
    """
    lines: list[Line] = []
    results: list[tuple[int, Line]] = []
    numbers: dict[str, int] = {}
    for item in items:
        if item.role in ("system", "developer") or PROMPT in item.text or CONTEXT.match(item.text):
            continue
        if (item.kind == "other" and item.text in THOUGHTS) or (item.role == "assistant" and MARKS.match(item.text)):
            continue
        if item.kind == "call":
            numbers[item.call] = len(numbers)
        # Results of parallel calls come in any order.
        if item.kind == "result":
            if twice and any(number == numbers.get(item.call) for number, _ in results):
                continue
            results.append((numbers.get(item.call, -1), Line("result", _plain(item.text, directories))))
            continue
        lines += [line for _, line in sorted(results, key=lambda one: one[0])]
        results.clear()
        told = json.dumps([item.name, item.arguments], sort_keys=True) if item.kind == "call" else item.text
        if (key := _plain(told, directories)) or item.kind == "call":
            lines.append(Line(item.kind if item.kind != "text" else item.role, key))
    return [*lines, *(line for _, line in sorted(results, key=lambda one: one[0]))]


def _plain(text: str, directories: list[str]) -> str:
    """A text without directories: one below another becomes the same, wherever the upper one is now."""
    text = BESIDE.sub("", text).replace('"detail": "high", ', "")
    for directory in sorted(filter(None, directories), key=len, reverse=True):
        text = text.replace(directory, "/CWD").replace(json.dumps(directory)[1:-1], "/CWD")
    below = {
        low[len(high) :] for low in directories for high in directories if low.startswith((f"{high}/", f"{high}\\"))
    }
    below |= {json.dumps(end)[1:-1] for end in below}
    for end in sorted(below, key=len, reverse=True):
        text = text.replace(f"/CWD{end}", "/CWD")
    return " ".join(text.split())


def _difference(by_client: list[Line], by_clew: list[Line]) -> str:
    """What one list has and the other has not, in words; empty if they are the same."""
    told: list[str] = []
    for kind, a, b, c, d in SequenceMatcher(None, by_client, by_clew, autojunk=False).get_opcodes():
        own, ours = by_client[a:b], by_clew[c:d]
        # A summary is the same with the client's words around it.
        is_wrapped = [one.kind for one in own] == [one.kind for one in ours] and all(
            short.key in long.key for short, long in zip(ours, own, strict=True)
        )
        if kind != "equal" and not is_wrapped:
            told += [f"- {line.kind}: {line.key[:200]}" for line in by_client[a:b]]
            told += [f"+ {line.kind}: {line.key[:200]}" for line in by_clew[c:d]]
    return "\n".join(told)


def _records(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def _is_lines(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def _first(file: Path, member: str) -> str:
    return next((str(record[member]) for record in _records(file) if record.get(member)), "")


def _directories(file: Path) -> list[str]:
    """The working directories that a file names, the longest first."""
    text = file.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r'\\?"(?:cwd|workdir)\\?"\s*:\s*\\?"((?:[^"\\]|\\\\){4,})\\?"', text)
    plain = [re.sub(r"\\+", r"\\", directory) for directory in found]
    return [directory for directory, _ in Counter(plain).most_common(20)]


def _with_uuid(file: Path, native: str, place: Place) -> tuple[str, Path]:
    """The id and a copy of a file in which it is a UUID: publishers replace ids, and clients take nothing else."""
    if re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", native):
        return native, file
    id, copy = str(uuid.uuid5(uuid.NAMESPACE_URL, native)), place.temporary / "copy.jsonl"
    text = file.read_text(encoding="utf-8").replace(json.dumps(native), json.dumps(id))
    copy.write_text(text, encoding="utf-8")
    return id, copy


def _put(file: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.read_bytes())


def _last_words(ran: Ran) -> str:
    said = (ran.err.strip() or ran.out.strip()).splitlines()
    return f"ended with {ran.code}: {said[-1][:300] if said else 'nothing was said'}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a client's own resume with that of what clew writes.")
    parser.add_argument("folder", type=Path, help="a folder of session files")
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--keep", type=Path, help="where homes and requests stay (default: they are removed)")
    options = parser.parse_args()
    files = [path for path in sorted(options.folder.rglob("*")) if path.suffix in (".json", ".jsonl")]
    found: list[Compared] = []
    with tempfile.TemporaryDirectory(prefix="same-") as temporary:
        for number, file in enumerate(path for path in files if options.only in str(path)):
            try:
                found.append(compare(file, (options.keep or Path(temporary)) / str(number)))
            except (AssertionError, KeyError, StopIteration) as error:
                found.append(Compared(file.name[-60:], "", "failed", why=str(error)[-300:]))
            print(_shown(found[-1]), flush=True)
    verdicts = Counter(one.verdict for one in found)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    return int(bool(verdicts["differs"] or verdicts["failed"]))


def _shown(one: Compared) -> str:
    counted = ", ".join(f"{kind} {by_client}/{by_clew}" for kind, by_client, by_clew in one.counts)
    head = f"{one.verdict:<10} {one.runtime:<12} {one.file}  {counted}"
    return "\n    ".join([head, *one.why.splitlines()[:12]])


if __name__ == "__main__":
    sys.exit(main())
