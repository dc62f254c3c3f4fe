"""How an adapter writes: what it wrote is read again and says the same."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import msgspec

from clew.model.conversation import conversation, model_view
from clew.model.events import CallMade, Draft, Event, ImagePart, TextPart
from clew.runtimes.conformance.claims import claim, guarded, shown
from clew.runtimes.conformance.declaration import format_of, is_below, matches
from clew.runtimes.conformance.reading import check_bytes, cuts
from clew.runtimes.conformance.stories import AT, CWD, hostile_story, picture_of, story
from clew.runtimes.contract import Native, Runtime, Target, Writer
from clew.runtimes.fit import fit
from clew.runtimes.rounds import Answer, Prompt, Round, output_text, rounds

SESSION_ID = "0c3e0a52-7a3b-4e0e-9d55-3f1f2a6f8b10"


def check_writing(runtime: Runtime) -> None:
    """A made-up conversation, and a hostile one, come through the writer and back."""
    check_rewriting(runtime, story(runtime), "a made-up session")
    check_rewriting(runtime, hostile_story(), "a made-up session with odd texts", tools=False)


def check_rewriting(
    runtime: Runtime, drafts: list[Draft], where: str, *, tools: bool = True, exactly: bool = True
) -> None:
    """Write what was read, and read it again: the conversation is the same, and so is the file the next time."""
    writer = runtime.writer
    if writer is None:
        return
    with guarded(f"{where}: fitting"):
        talk = fit(events_of(drafts), runtime, tools={runtime.name: runtime.tools}).rounds
    for target in TARGETS if talk else ():
        with guarded(f"{where}: writing"):
            native, again = writer.write(talk, target), writer.write(talk, target)
        _check_native(runtime, writer, native, where)
        claim(native == again, f"{where}: writing the same twice gives other files; derive ids from target.id")
        if exactly:
            back = heard(rounds(model_view(events_of(read_written(runtime, native)))), tools=tools)
            told = heard(talk, tools=tools)
            claim(back == told, f"{where}: what was written reads back as something else: {_first_change(told, back)}")


def check_talk(runtime: Runtime, drafts: list[Draft], target: Runtime) -> None:
    """Whatever was read can be talked about: it has a conversation, and the target's writer takes it."""
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
        claim(isinstance(file.data, bytes), f"{where}: the data of {file.path!r} is no bytes")
        longest = max(len(name.encode()) for name in PurePosixPath(file.path).parts)
        claim(longest <= 255, f"{where}: {file.path!r} holds a name of {longest} bytes, which no file system takes")
    first = native.files[0].path
    command = writer.resume(native.id, f"{CWD}/{first}")
    claim(
        command.argv and all(isinstance(word, str) for word in command.argv),
        f"{where}: the resume command {command.argv!r} is no list of words",
    )
    claim(
        all(isinstance(word, str) for pair in command.env.items() for word in pair),
        f"{where}: the environment of the resume command {command.env!r} is not text",
    )
    if native.door is not None:
        claim("{file}" in native.door, f"{where}: the import command {native.door!r} does not name {{file}}")
        return
    patterns = [pattern for format in runtime.formats for pattern in format.patterns]
    claim(
        any(matches(pattern, first) for pattern in patterns),
        f"{where}: {first!r} would never be captured back: no pattern of {patterns} matches it",
    )


def read_written(runtime: Runtime, native: Native) -> list[Draft]:
    """What the runtime's own reader makes of what its writer wrote."""
    file = native.files[0]
    format = format_of(runtime, file.path, file.data)
    return check_bytes(runtime, format, file.path, file.data, cuts=cuts(file.data)[:5])


def _target(cwd: str, title: str) -> Target:
    return Target(id=SESSION_ID, cwd=cwd, at=AT, title=title, blob=picture_of)


LONG = "/long-names" * 20
TARGETS = (_target(CWD, "A title"), _target("/../../../x", "../../../x"), _target(f"/é ü{LONG}", ""))


def events_of(drafts: Iterable[Draft]) -> list[Event]:
    """Drafts as a log would hold them: the same source twice is one event."""
    found: dict[str, Event] = {}
    for draft in drafts:
        seq = len(found) + 1
        event = Event("s", seq, seq, AT + seq, draft.said_at, "person:x", draft.source, b"", draft.body)
        found.setdefault(draft.source or f"~{seq}", event)
    return list(found.values())


def heard(talk: list[Round], *, tools: bool = True) -> list[tuple[Any, ...]]:
    """What a model hears of a conversation: texts, images, calls and results in order, calls by their number.

    Without `tools` the names of tools are left out: a provider may not take every name.
    """
    found: list[tuple[Any, ...]] = []
    numbers: dict[str, int] = {}

    def says(who: str, text: str) -> None:
        if found and found[-1][0] == who:
            text = f"{found.pop()[1]}\n{text}"
        found.append((who, text))

    for one in talk:
        if isinstance(one, Prompt | Answer):
            who = "user" if isinstance(one, Prompt) else "assistant"
            for part in one.parts:
                if isinstance(part, CallMade):
                    numbers[part.call] = len(numbers)
                    found.append(
                        ("call", numbers[part.call], part.tool if tools else "", msgspec.json.decode(part.input))
                    )
                elif isinstance(part, TextPart):
                    says(who, part.text)
                elif isinstance(part, ImagePart):
                    found.append((who, "an image"))
        else:
            backs = sorted(one.returns, key=lambda back: numbers.get(back.call, -1))
            found += [("result", numbers.get(back.call, -1), output_text(back)) for back in backs]
    return found


def _first_change(told: list[Any], back: list[Any]) -> str:
    at = next(
        (i for i, (one, other) in enumerate(zip(told, back, strict=False)) if one != other), min(len(told), len(back))
    )
    return f"at {at}, {shown(told[at : at + 2])} became {shown(back[at : at + 2])}"
