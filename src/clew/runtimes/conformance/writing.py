"""Checks of an adapter's writer: its own reader reads the written session back to the same conversation."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import msgspec

from clew.model.conversation import conversation, model_view
from clew.model.events import CallMade, Draft, Event, ImagePart, TextPart
from clew.model.outline import Outline
from clew.runtimes.conformance.claims import claim, guarded, shown
from clew.runtimes.conformance.declaration import format_of, is_below, matches
from clew.runtimes.conformance.reading import check_bytes, cuts
from clew.runtimes.conformance.stories import AT, CWD, hostile_story, picture_of, story
from clew.runtimes.contract import Native, Runtime, Target, Writer
from clew.runtimes.fit import fit
from clew.runtimes.rounds import Answer, Prompt, Round, output_text, rounds

SESSION_ID = "0c3e0a52-7a3b-4e0e-9d55-3f1f2a6f8b10"


def check_writing(runtime: Runtime) -> None:
    """Write and read back a made-up conversation and a hostile one."""
    check_rewriting(runtime, story(runtime), "a made-up session")
    check_rewriting(runtime, hostile_story(), "a made-up session with odd texts", tools=False)


def check_rewriting(
    runtime: Runtime, drafts: list[Draft], where: str, *, tools: bool = True, exactly: bool = True
) -> None:
    """Write drafts and read them back: the conversation is the same, and a second writing gives the same files."""
    writer = runtime.writer
    if writer is None:
        return
    with guarded(f"{where}: fitting"):
        talk = fit(
            Outline.in_memory({event.seq: event for event in events_of(drafts)}),
            runtime,
            tools={runtime.name: runtime.tools},
        ).rounds
    for target in TARGETS if talk else ():
        with guarded(f"{where}: writing"):
            native, again = writer.write(talk, target), writer.write(talk, target)
        _check_native(runtime, writer, native, where)
        claim(native == again, f"{where}: writing the same twice gives other files; derive ids from target.id")
        if exactly:
            back = llm_input(rounds(model_view(events_of(read_written(runtime, native)))), tools=tools)
            expected = llm_input(talk, tools=tools)
            claim(
                back == expected,
                f"{where}: what was written reads back as something else: {_first_change(expected, back)}",
            )


def check_talk(runtime: Runtime, drafts: list[Draft], target: Runtime) -> None:
    """The drafts of a session have a conversation, and the target's writer accepts it."""
    events = events_of(drafts)
    with guarded("conversation() or rounds()"):
        rounds(conversation(events, sides=True))
        rounds(model_view(events))
    check_rewriting(target, drafts, f"a session of {runtime.name} for {target.name}", exactly=False)


def _check_native(runtime: Runtime, writer: Writer, native: Native, where: str) -> None:
    claim(native.id, f"{where}: write gives no Native with an id")
    claim(native.files, f"{where}: no file was written")
    for file in native.files:
        claim(is_below(file.path), f"{where}: the file {file.path!r} would be outside the runtime's home")
        claim(isinstance(file.data, bytes), f"{where}: the data of {file.path!r} is not bytes")
        longest = max(len(name.encode()) for name in PurePosixPath(file.path).parts)
        claim(longest <= 255, f"{where}: {file.path!r} holds a name of {longest} bytes, which no file system takes")
    first = native.files[0].path
    command = writer.resume(native.id, f"{CWD}/{first}")
    claim(
        command.argv and all(isinstance(word, str) for word in command.argv),
        f"{where}: the resume command {command.argv!r} is not a list of words",
    )
    claim(
        all(isinstance(word, str) for pair in command.env.items() for word in pair),
        f"{where}: the environment of the resume command {command.env!r} is not text",
    )
    if writer.prepare:
        named = any("{file}" in command for command in writer.prepare)
        claim(named, f"{where}: no command of {writer.prepare!r} names {{file}}")
        return
    patterns = [pattern for format in runtime.formats for pattern in format.patterns]
    claim(
        any(matches(pattern, first) for pattern in patterns),
        f"{where}: {first!r} would never be captured back: no pattern of {patterns} matches it",
    )


def read_written(runtime: Runtime, native: Native) -> list[Draft]:
    """The drafts that the runtime's own reader gives for what its writer wrote."""
    file = native.files[0]
    format = format_of(runtime, file.path, file.data)
    return check_bytes(runtime, format, file.path, file.data, cuts=cuts(file.data)[:5])


def _target(cwd: str, title: str) -> Target:
    return Target(id=SESSION_ID, cwd=cwd, at=AT, title=title, blob=picture_of)


LONG = "/long-names" * 20
TARGETS = (_target(CWD, "A title"), _target("/../../../x", "../../../x"), _target(f"/é ü{LONG}", ""))


def events_of(drafts: Iterable[Draft]) -> list[Event]:
    """The events that a log would hold for the drafts: a repeated source is one event."""
    events: dict[str, Event] = {}
    for draft in drafts:
        seq = len(events) + 1
        event = Event("s", seq, seq, AT + seq, draft.said_at, "person:x", draft.source, b"", draft.body)
        events.setdefault(draft.source or f"~{seq}", event)
    return list(events.values())


def llm_input(talk: list[Round], *, tools: bool = True) -> list[tuple[Any, ...]]:
    """What an llm receives of a conversation: texts, images, calls and results in order, calls by their number.

    Without `tools` the names of tools are left out: a provider may not accept every name.
    """
    items: list[tuple[Any, ...]] = []
    numbers: dict[str, int] = {}

    def says(who: str, text: str) -> None:
        if items and items[-1][0] == who:
            text = f"{items.pop()[1]}\n{text}"
        items.append((who, text))

    for round in talk:
        if isinstance(round, Prompt | Answer):
            who = "user" if isinstance(round, Prompt) else "assistant"
            for part in round.parts:
                if isinstance(part, CallMade):
                    numbers[part.call] = len(numbers)
                    items.append(
                        ("call", numbers[part.call], part.tool if tools else "", msgspec.json.decode(part.input))
                    )
                elif isinstance(part, TextPart):
                    says(who, part.text)
                elif isinstance(part, ImagePart):
                    items.append((who, "an image"))
        else:
            backs = sorted(round.returns, key=lambda back: numbers.get(back.call, -1))
            items += [("result", numbers.get(back.call, -1), output_text(back)) for back in backs]
    return items


def _first_change(before: list[Any], back: list[Any]) -> str:
    at = next(
        (i for i, (left, right) in enumerate(zip(before, back, strict=False)) if left != right),
        min(len(before), len(back)),
    )
    return f"at {at}, {shown(before[at : at + 2])} became {shown(back[at : at + 2])}"
