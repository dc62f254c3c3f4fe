"""A page of a transcript as rows that a template shows: long texts cut, calls with their outcome, raw records together.

The text of a row is masked before it comes here, and cut here. What is cut is shown whole by the page of its event.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from clew.model import events as e
from clew.model.codec import to_json
from clew.model.events import Event
from clew.model.remark import remark_of
from clew.model.steps import end_step
from clew.model.transcript import Item, Subagent, Turn
from clew.runtimes.calls import command_of, inputs_of, output_of, telling_of
from clew.runtimes.changes import Line, changes_of, count_of, lines_of
from clew.server.web.images import RASTERS
from clew.server.web.text.ansi import without_colours
from clew.service.kernel.results import flat

# What a row shows of a text: characters of a message, lines and characters of an output, lines of a diff.
MESSAGE, OUTPUT_LINES, OUTPUT, DIFF_LINES, LONGEST_LINE = 12_000, 40, 6_000, 60, 1_000
RAW = 2_000
# The tools that only read or search, as programs commonly name them.
LOOKING = frozenset(
    "read read_file readfile view open_file read_many_files notebookread cat grep glob search find ls list list_dir "
    "list_directory search_file_content find_files grep_search file_search codebase_search".split()
)
LONGEST_TELLING = 200


class Excerpt(NamedTuple):
    """The beginning of a text; `rest` says how much more there is, in words."""

    text: str
    rest: str = ""


class Picture(NamedTuple):
    """An image that is stored with an event: its digest, the event, and its words."""

    digest: str
    seq: int
    words: str


class Part(NamedTuple):
    """A part of a message: text, thinking (with its number of words), an attached file, or an image."""

    type: str
    text: str
    rest: str = ""
    words: int = 0
    picture: Picture | None = None


class Message(NamedTuple):
    seq: int
    at: int
    role: str
    speaker: str
    model: str
    side: str
    parts: list[Part]
    type: str = "message"


NOTHING = Excerpt("")


class Call(NamedTuple):
    seq: int
    at: int
    tool: str
    telling: str
    side: str
    outcome: str = ""
    """ok, failed, or what became of its return."""
    about: str = ""
    """The size of the outcome: lines, or a count of changed lines."""
    duration_us: int | None = None
    exit_code: int | None = None
    command: Excerpt = NOTHING
    input: Excerpt = NOTHING
    diff: Sequence[Line] = ()
    diff_rest: str = ""
    output: Excerpt = NOTHING
    attached: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    returned_seq: int = 0
    answer: str = ""
    """The provider's id of the answer that made it; calls of one answer run at once."""
    looks: bool = False
    """Whether it only reads or searches."""
    type: str = "call"


class Mark(NamedTuple):
    """A line about something that is no part of the conversation; `tone` is one of knowledge, state, gone."""

    seq: int
    at: int
    text: str
    tone: str = ""
    detail: str = ""
    decides: bool = False
    has_files: bool = False
    """Whether it kept or restored the files of the session, which have a page."""
    type: str = "mark"


class Raw(NamedTuple):
    """Records that this program does not know, as they are."""

    seq: int
    at: int
    kinds: str
    records: list[tuple[int, Excerpt]]
    type: str = "raw"


class Group(NamedTuple):
    """Calls that belong together: those of one answer, or reads and searches one after the other."""

    seq: int
    at: int
    title: str
    calls: list[Call]
    is_folded: bool
    type: str = "group"


Row = Message | Call | Mark | Raw | Group


class TurnRows(NamedTuple):
    """A turn, or the piece of one that is on a page, and what it took."""

    seq: int
    begins: bool
    at: int
    duration_us: int
    calls: int
    failed: int
    tokens: int
    rows: list[Row]
    subagents: list[Subagent]


def rows_of(turns: Iterable[Turn], *, cwd: str, you: str) -> list[TurnRows]:
    """The turns of a page as rows. `you` is the principal who reads."""
    return [_turn(turn, cwd, you) for turn in turns]


def _turn(turn: Turn, cwd: str, you: str) -> TurnRows:
    rows = list(_rows(turn.items, cwd, you))
    calls = [row for row in rows if isinstance(row, Call)]
    return TurnRows(
        seq=turn.seq, begins=turn.begins, at=turn.at, duration_us=turn.duration_us, calls=len(calls),
        failed=sum(call.outcome == "failed" for call in calls), tokens=turn.usage.tokens if turn.usage else 0,
        rows=rows, subagents=turn.subagents,
    )  # fmt: skip


# Calls that belong together -------------------------------------------------------------------------------------------

# So many reads and searches in a row are one line.
MANY_LOOKS = 3


def gathered(rows: list[Row]) -> list[Row]:
    """The rows, with neighbouring calls that belong together in groups."""
    made: list[Row] = []
    for key, run in groupby(rows, key=_belongs_to):
        members = list(run)
        calls = [row for row in members if isinstance(row, Call)]
        if key == LOOKS and len(calls) >= MANY_LOOKS:
            made.append(Group(calls[0].seq, calls[0].at, _looks(calls), calls, is_folded=True))
        elif key not in ("", LOOKS) and len(calls) > 1:
            made.append(Group(calls[0].seq, calls[0].at, f"{len(calls)} calls at once", calls, is_folded=False))
        else:
            made += members
    return made


LOOKS = "looks"


def _belongs_to(row: Row) -> str:
    """What neighbouring rows have in common that belong together; empty for a row that stands for itself."""
    if not isinstance(row, Call):
        return ""
    if row.looks and row.outcome == "ok" and not row.pictures:
        return LOOKS
    return f"answer {row.answer}" if row.answer else ""


def _looks(calls: list[Call]) -> str:
    tools: dict[str, int] = {}
    for call in calls:
        tools[call.tool] = tools.get(call.tool, 0) + 1
    names = ", ".join(f"{tool} {count}" if count > 1 else tool for tool, count in tools.items())
    return f"{names}: {', '.join(call.telling for call in calls if call.telling)}"


def _rows(items: list[Item], cwd: str, you: str) -> Iterator[Row]:
    raw: list[Item] = []
    for item in items:
        end_step()
        is_raw = item.event is not None and isinstance(item.event.body, e.Opaque)
        if raw and not is_raw:
            yield _raw(raw)
            raw = []
        if is_raw:
            raw.append(item)
        elif (row := _row(item, cwd, you)) is not None:
            yield row
    if raw:
        yield _raw(raw)


def _row(item: Item, cwd: str, you: str) -> Row | None:
    event = item.event
    if event is None:
        verb = "event was" if item.withdrawn == 1 else "events were"
        return Mark(item.seq, item.at, f"{item.withdrawn:,} {verb} taken back by a rewind", "gone")
    match event.body:
        case e.MessageAdded() as body:
            return _message(item, event, body, you)
        case e.CallMade() as body:
            return _call(item, body, cwd)
        case e.CallReturned() as body:
            return _lost(item, body, "return of a call that is not here")
        case e.Removed(how=how) if item.returned is not None and isinstance(item.returned.body, e.CallReturned):
            return _lost(item, item.returned.body, f"return of a call that was {how}")
        case e.Opaque():
            return None
        case body:
            return _mark(item, body)


def _mark(item: Item, body: e.Body | e.Removed) -> Mark:
    """The line of an event that is no part of the conversation."""
    match body:
        case e.Removed(how=how):
            verb = "is" if how == "damaged" else "was"
            return Mark(item.seq, item.at, f"{_words(body.kind)}: its content {verb} {how}", "gone")
        case e.Compacted(summary=summary):
            return Mark(item.seq, item.at, "earlier conversation summarised", "state", summary)
        case e.HandoffOffered(to=to, brief=brief):
            return Mark(item.seq, item.at, f"handed off to {to}" if to else "handed off", "handoff", brief)
        case e.RuntimeAttached(runtime=runtime, cwd=cwd, machine=machine):
            where = "".join((f" in {cwd}" if cwd else "", f" on {machine}" if machine else ""))
            return Mark(item.seq, item.at, f"runs in {runtime or 'a program'}{where}", "state")
        case e.SessionForked(parent=parent, upto=upto):
            return Mark(item.seq, item.at, f"forked from {parent} at {upto}", "state")
        case e.SessionErased(events=events, reason=reason):
            words = ", ".join(filter(None, (f"this session was erased ({events:,} events)", reason)))
            return Mark(item.seq, item.at, words, "gone")
        case e.WorkspaceSnapshotted() | e.WorkspaceRestored():
            return Mark(item.seq, item.at, _files_words(body), "state", has_files=True)
        case _:
            text = _words(body.kind) if item.is_bookkeeping else remark_of(body)
            tone = "knowledge" if body.step == "knowledge" else "state"
            return Mark(item.seq, item.at, text, tone, decides=isinstance(body, e.DecisionMade))


def _files_words(body: e.WorkspaceSnapshotted | e.WorkspaceRestored) -> str:
    if isinstance(body, e.WorkspaceRestored):
        return ": ".join(filter(None, ("files restored", ", ".join(body.paths))))
    return ": ".join(filter(None, ("files kept before a restore" if body.restores else "files kept", body.label)))


def _words(kind: str) -> str:
    return kind.replace("_", " ")


# Messages -------------------------------------------------------------------------------------------------------------


def _message(item: Item, event: Event, body: e.MessageAdded, you: str) -> Message | None:
    parts = [shown for part in body.content if (shown := _part(part, event.seq)) is not None]
    if not parts:
        return None
    role = body.role if body.role in ("user", "assistant", "system") else "other"
    return Message(
        seq=item.seq, at=item.at, role=role, speaker=_speaker(event, body, you), model=body.model, side=item.side,
        parts=parts,
    )  # fmt: skip


def _speaker(event: Event, body: e.MessageAdded, you: str) -> str:
    if body.side:
        name = "subagent" if body.side == "side" else body.side
        return name if body.role == "assistant" else f"to {name}"
    if body.role == "user":
        return "You" if event.actor == you else event.actor.partition(":")[2] or event.actor
    return body.role


def _part(part: e.Part, seq: int) -> Part | None:
    match part:
        case e.TextPart(text=text):
            return Part("text", *_excerpt(text.strip("\n"), MESSAGE)) if text.strip() else None
        case e.ThinkingPart(text=text):
            # Some providers encrypt thinking, so there is no text.
            return Part("thinking", *_excerpt(text.strip("\n"), MESSAGE), len(text.split())) if text.strip() else None
        case e.ImagePart() | e.FilePart():
            return Part("file", _attached(part), picture=_picture(part, seq))


def _picture(part: e.ImagePart | e.FilePart, seq: int) -> Picture | None:
    """The image of a part, if it says that it is one that browsers show and that cannot hold scripts."""
    if part.media_type.lower() not in RASTERS or not part.blob:
        return None
    return Picture(part.blob, seq, _attached(part))


def _attached(part: e.ImagePart | e.FilePart) -> str:
    what = "image" if isinstance(part, e.ImagePart) else "file"
    return " ".join(filter(None, (what, part.media_type.removeprefix("image/"), part.name)))


def _excerpt(text: str, longest: int, most_lines: int = 0) -> Excerpt:
    """The beginning of a text, at most so long, up to the end of a line where that is near."""
    cut = text
    if most_lines and text.count("\n") >= most_lines:
        cut = "\n".join(text.split("\n", most_lines)[:most_lines])
    if len(cut) > longest:
        end = cut.rfind("\n", longest // 2, longest)
        cut = cut[: end if end > 0 else longest]
    if len(cut) == len(text):
        return Excerpt(text)
    lines = text[len(cut) :].count("\n")
    return Excerpt(cut, f"{lines:,} more lines" if lines > 1 else f"{len(text) - len(cut):,} more characters")


# Calls ----------------------------------------------------------------------------------------------------------------


def _call(item: Item, made: e.CallMade, cwd: str) -> Call:
    values = inputs_of(made)
    changes = changes_of(values)
    telling, told = telling_of(values, cwd)
    command = command_of(values) if not changes else ""
    is_long = len(telling) > LONGEST_TELLING or "\n" in telling
    untold = values if is_long and not command else {name: value for name, value in values.items() if name not in told}
    return _with_return(
        item,
        Call(
            seq=item.seq, at=item.at, tool=made.tool, telling=" ".join(telling[:1000].split()), side=item.side,
            command=_excerpt(command, OUTPUT, OUTPUT_LINES) if len(command) > 80 or "\n" in command else NOTHING,
            input=_excerpt(_indented(untold), OUTPUT, OUTPUT_LINES) if untold and not changes else NOTHING,
            diff=[_cut(line) for line in changes[:DIFF_LINES]], diff_rest=_more(len(changes) - DIFF_LINES),
            answer=made.message, looks=made.tool.rsplit("__", 1)[-1].lower() in LOOKING,
        ),
        item.returned.body if item.returned is not None else None,
        changes,
    )  # fmt: skip


def _lost(item: Item, back: e.CallReturned, what: str) -> Call:
    """A return without its call."""
    return _with_return(item, Call(seq=item.seq, at=item.at, tool="", telling=what, side=item.side), back, [])


def _with_return(item: Item, call: Call, back: e.AnyBody | None, changes: list[Line]) -> Call:
    output = output_of(back) if isinstance(back, e.CallReturned) else ""
    returned_seq = item.returned.seq if item.returned is not None else 0
    return call._replace(
        outcome=_outcome(back), about=_about(back, output, changes), duration_us=item.duration_us,
        exit_code=item.exit_code, output=_excerpt(output.rstrip("\n"), OUTPUT, OUTPUT_LINES), attached=_files_of(back),
        pictures=_pictures_of(back, returned_seq or item.seq), returned_seq=returned_seq,
    )  # fmt: skip


def _cut(line: Line) -> Line:
    return line if len(line.text) <= LONGEST_LINE else Line(line.text[:LONGEST_LINE] + "…", line.style)


def _more(lines: int) -> str:
    return f"{lines:,} more lines" if lines > 0 else ""


def _outcome(back: e.AnyBody | None) -> str:
    if isinstance(back, e.CallReturned):
        return "failed" if back.failed else "ok"
    return f"its return was {back.how}" if isinstance(back, e.Removed) else "no return"


def _about(back: e.AnyBody | None, output: str, changes: list[Line]) -> str:
    if not isinstance(back, e.CallReturned):
        return ""
    if changes and not back.failed:
        return count_of(changes)
    lines = len(lines_of(without_colours(output[:1_000_000])))
    if not lines:
        return "" if back.parts else "no output"
    return f"{lines:,} line{'s' if lines != 1 else ''}"


def _files_of(back: e.AnyBody | None) -> list[str]:
    parts = back.parts if isinstance(back, e.CallReturned) else ()
    files = (part for part in parts if isinstance(part, e.ImagePart | e.FilePart))
    return [_attached(part) for part in files if _picture(part, 0) is None]


def _pictures_of(back: e.AnyBody | None, seq: int) -> list[Picture]:
    parts = back.parts if isinstance(back, e.CallReturned) else ()
    files = (part for part in parts if isinstance(part, e.ImagePart | e.FilePart))
    return [picture for part in files if (picture := _picture(part, seq)) is not None]


def _indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


# Raw records ----------------------------------------------------------------------------------------------------------


def _raw(items: list[Item]) -> Raw:
    kinds: dict[str, int] = {}
    for item in items:
        if item.event is not None:
            kinds[item.event.kind] = kinds.get(item.event.kind, 0) + 1
    names = ", ".join(f"{kind} ({times:,})" if times > 1 else kind for kind, times in kinds.items())
    records = [(item.seq, raw_of(item.event, RAW)) for item in items if item.event is not None]
    return Raw(items[0].seq, items[0].at, names, records)


def raw_of(event: Event, longest: int = 0) -> Excerpt:
    """An event as JSON, indented; all of it, or its beginning."""
    text = to_json(flat(event))
    if longest and len(text) > longest:
        return _excerpt(text, longest)
    return Excerpt(msgspec.json.format(text.encode(), indent=2).decode())
