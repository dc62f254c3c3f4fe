"""The fidelity report of an export form: what the form can hold of a session, and what it cannot.

The report has the same type as that of a session that continues in another program (fit.py). Nothing is converted here:
each function describes what the module of one form does with the events.
"""

from collections.abc import Iterator

from clew.model.conversation import conversation
from clew.model.events import (
    CallMade,
    Compacted,
    Event,
    FilePart,
    ImagePart,
    Removed,
    TextPart,
    ThinkingPart,
)
from clew.model.object_names import objects_of
from clew.runtimes.adapters.atif import IMAGES
from clew.runtimes.adapters.interchange import exchanges
from clew.runtimes.fit import GONE, Fidelity, Tally, counted, opaque_of, sides_of
from clew.runtimes.rounds import Answer, Prompt, Results, Round, images_of, rounds

NOT_IN_CONVERSATION = "they were said beside the conversation, not in it"


def lines(events: list[Event]) -> Fidelity:
    """clew's own lines: every event, without blobs and without what was removed."""
    tally = Tally()
    gone = [event.body.how for event in events if isinstance(event.body, Removed)]
    for how in gone:
        tally.drop("events", 1, GONE.get(how, how))
    objects = sum(len(objects_of(event.body)) for event in events)
    tally.adapt("images and files", objects, "named by their digest; the bytes stay in clew")
    return tally.fidelity({"events": len(events) - len(gone)}, {})


def page(events: list[Event], *, images: bool) -> Fidelity:
    """A page for people, which also holds the events for programs. With `images` it shows images."""
    tally, spoken = Tally(), conversation(events, sides=True)
    exported = _rounds_of(tally, events, spoken, roles=("user", "system"))
    for part in _binary_parts(exported):
        if not _is_text(part) and not (images and _is_image(part)):
            tally.adapt("images and files", 1, "a line names each; the bytes stay in clew")
    return tally.fidelity(counted(exported), {})


def trajectory(events: list[Event]) -> Fidelity:
    """ATIF: the conversation of the session's own agent, thoughts included."""
    tally, spoken = Tally(), conversation(events)
    tally.drop("messages of subagents", sides_of(events, spoken), NOT_IN_CONVERSATION)
    exported = _rounds_of(tally, events, spoken, roles=("user", "system"))
    for round in exported:
        if isinstance(round, Results):
            for back in round.returns:
                # Without an output the texts among the parts are the output.
                rest = images_of(back.parts) if bytes(back.output) == b"null" else back.parts
                tally.drop("parts of results", len(rest), "a result of ATIF is one text")
            continue
        for part in round.parts:
            if isinstance(part, CallMade):
                is_object = bytes(part.input).lstrip().startswith(b"{")
                tally.adapt("arguments", not is_object, "arguments that were no object were put into one")
            elif isinstance(part, ThinkingPart):
                _tally_thinking(tally, round, part)
            elif isinstance(part, ImagePart) and part.media_type in IMAGES:
                tally.adapt("images", 1, "named by their digest; the bytes stay in clew")
            elif not isinstance(part, TextPart):
                tally.drop("images and files", 1, "ATIF has no place for one of this type")
    _tally_order(tally, exported)
    lost = sum(len(round.lost) for round in exchanges(exported))
    tally.adapt("results without a call", lost, "each in a step of its own")
    return tally.fidelity(counted(exported), opaque_of(events))


def interchange(events: list[Event]) -> Fidelity:
    """Copilot's interchange: texts, calls and results; everything else becomes text."""
    tally, spoken = Tally(), conversation(events)
    tally.drop("messages of subagents", sides_of(events, spoken), NOT_IN_CONVERSATION)
    exported = _rounds_of(tally, events, spoken, roles=("user",))
    parts = [part for round in exported if not isinstance(round, Results) for part in round.parts]
    thoughts = sum(isinstance(part, ThinkingPart) for part in parts)
    tally.drop("thinking", thoughts, "the interchange has no word for it")
    for part in _binary_parts(exported):
        what = "written out" if _is_text(part) else "a line names each; the bytes stay in clew"
        tally.adapt("images and files", 1, what)
    calls = [part.call for part in parts if isinstance(part, CallMade)]
    tally.adapt("call ids", len(calls) - len({*calls}), "two calls had the same id")
    _tally_order(tally, exported)
    lost = sum(len(exchange.lost) for exchange in exchanges(exported))
    tally.adapt("results without a call", lost, "each a message that says so")
    return tally.fidelity(counted(exported), opaque_of(events))


# What they have in common ---------------------------------------------------------------------------------------------


def _rounds_of(tally: Tally, events: list[Event], spoken: list[Event], *, roles: tuple[str, ...]) -> list[Round]:
    """The rounds that all forms export; `roles` are those that the form supports."""
    tally.drop_removed(events, conversation)
    summaries = sum(isinstance(event.body, Compacted) for event in spoken)
    tally.adapt("compactions", summaries, "the summary is carried as the user's words")
    exported = rounds(spoken)
    for round in exported:
        if isinstance(round, Prompt) and round.role not in roles:
            tally.adapt(f"{round.role} messages", 1, "carried as the user's words")
    return exported


def _tally_thinking(tally: Tally, round: Round, part: ThinkingPart) -> None:
    if isinstance(round, Prompt) or not part.text:
        tally.drop("thinking", 1, "ATIF has no place for it but as the text of an answer")
    elif part.signature:
        tally.adapt("thinking", 1, "without its signature, which only holds for the provider that made it")


def _tally_order(tally: Tally, exported: list[Round]) -> None:
    """Count the answers whose order changes: texts come first in both interchange formats."""
    late = 0
    for round in exported:
        parts = round.parts if isinstance(round, Answer) else ()
        first = next((i for i, part in enumerate(parts) if isinstance(part, CallMade)), len(parts))
        late += any(not isinstance(part, CallMade) for part in parts[first:])
    tally.adapt("orders of texts and calls", late, "texts come before the calls of an answer")


def _binary_parts(exported: list[Round]) -> Iterator[ImagePart | FilePart]:
    """Every image and file, also those of results."""
    for round in exported:
        if isinstance(round, Results):
            for back in round.returns:
                yield from images_of(back.parts)
        else:
            yield from images_of(round.parts)


def _is_text(part: ImagePart | FilePart) -> bool:
    return isinstance(part, FilePart) and part.media_type.startswith("text/")


def _is_image(part: ImagePart | FilePart) -> bool:
    return part.media_type.lower().startswith("image/") or (isinstance(part, ImagePart) and not part.media_type)
