"""What becomes of a session in a form of export: what the form has a place for, and what it has not.

The report is the one of a session that goes on in another program (fit.py). Nothing is converted here: each function
says of one form what its module does to the same events.
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
    blobs_of,
)
from clew.runtimes.adapters.atif import IMAGES
from clew.runtimes.adapters.interchange import exchanges
from clew.runtimes.fit import GONE, Fidelity, Tally, counted, opaque_of, sides_of
from clew.runtimes.rounds import Answer, Prompt, Results, Round, images_of, rounds

BESIDE = "they were said beside the conversation, not in it"


def lines(events: list[Event]) -> Fidelity:
    """clew's own lines: every event, but neither blobs nor what was removed."""
    tally = Tally()
    gone = [event.body.how for event in events if isinstance(event.body, Removed)]
    for how in gone:
        tally.drop("events", 1, GONE.get(how, how))
    blobs = sum(len(blobs_of(event.body)) for event in events)
    tally.adapt("images and files", blobs, "named by their digest; the bytes stay in clew")
    return tally.fidelity({"events": len(events) - len(gone)}, {})


def page(events: list[Event], *, images: bool) -> Fidelity:
    """A page for people, which carries the events for programs, too. `images` says that it shows them."""
    tally, spoken = Tally(), conversation(events)
    tally.adapt("messages of subagents", sides_of(events, spoken), "not shown, but among the events in the page")
    found = _told(tally, events, spoken, roles=("user", "system"))
    for part in _parts(found):
        if not _is_text(part) and not (images and _is_image(part)):
            tally.adapt("images and files", 1, "a line names each; the bytes stay in clew")
    return tally.fidelity(counted(found), {})


def trajectory(events: list[Event]) -> Fidelity:
    """ATIF: the conversation of the session's own agent, thoughts included."""
    tally, spoken = Tally(), conversation(events)
    tally.drop("messages of subagents", sides_of(events, spoken), BESIDE)
    found = _told(tally, events, spoken, roles=("user", "system"))
    for one in found:
        if isinstance(one, Results):
            for back in one.returns:
                # Without an output the texts among the parts are the output.
                rest = images_of(back.parts) if bytes(back.output) == b"null" else back.parts
                tally.drop("parts of results", len(rest), "a result of ATIF is one text")
            continue
        for part in one.parts:
            if isinstance(part, CallMade):
                is_object = bytes(part.input).lstrip().startswith(b"{")
                tally.adapt("arguments", not is_object, "arguments that were no object were put into one")
            elif isinstance(part, ThinkingPart):
                _thought(tally, one, part)
            elif isinstance(part, ImagePart) and part.media_type in IMAGES:
                tally.adapt("images", 1, "named by their digest; the bytes stay in clew")
            elif not isinstance(part, TextPart):
                tally.drop("images and files", 1, "ATIF has no place for one of this type")
    _order(tally, found)
    lost = sum(len(one.lost) for one in exchanges(found))
    tally.adapt("results without a call", lost, "each in a step of its own")
    return tally.fidelity(counted(found), opaque_of(events))


def interchange(events: list[Event]) -> Fidelity:
    """Copilot's interchange: texts, calls and results, and words in place of all else."""
    tally, spoken = Tally(), conversation(events)
    tally.drop("messages of subagents", sides_of(events, spoken), BESIDE)
    found = _told(tally, events, spoken, roles=("user",))
    said = [part for one in found if not isinstance(one, Results) for part in one.parts]
    thoughts = sum(isinstance(part, ThinkingPart) for part in said)
    tally.drop("thinking", thoughts, "the interchange has no word for it")
    for part in _parts(found):
        what = "written out" if _is_text(part) else "a line names each; the bytes stay in clew"
        tally.adapt("images and files", 1, what)
    calls = [part.call for part in said if isinstance(part, CallMade)]
    tally.adapt("call ids", len(calls) - len({*calls}), "two calls had the same id")
    _order(tally, found)
    lost = sum(len(one.lost) for one in exchanges(found))
    tally.adapt("results without a call", lost, "each a message that says so")
    return tally.fidelity(counted(found), opaque_of(events))


# What they have in common ---------------------------------------------------------------------------------------------


def _told(tally: Tally, events: list[Event], spoken: list[Event], *, roles: tuple[str, ...]) -> list[Round]:
    """The conversation as all forms tell it; `roles` are those that have a place of their own."""
    tally.drop_removed(events, conversation)
    summaries = sum(isinstance(event.body, Compacted) for event in spoken)
    tally.adapt("compactions", summaries, "the summary is carried as the user's words")
    found = rounds(spoken)
    for one in found:
        if isinstance(one, Prompt) and one.role not in roles:
            tally.adapt(f"{one.role} messages", 1, "carried as the user's words")
    return found


def _thought(tally: Tally, one: Round, part: ThinkingPart) -> None:
    if isinstance(one, Prompt) or not part.text:
        tally.drop("thinking", 1, "ATIF has no place for it but as the text of an answer")
    elif part.signature:
        tally.adapt("thinking", 1, "without its signature, which only holds for the provider that made it")


def _order(tally: Tally, found: list[Round]) -> None:
    """Texts come first in both interchange formats."""
    late = 0
    for one in found:
        parts = one.parts if isinstance(one, Answer) else ()
        first = next((i for i, part in enumerate(parts) if isinstance(part, CallMade)), len(parts))
        late += any(not isinstance(part, CallMade) for part in parts[first:])
    tally.adapt("orders of texts and calls", late, "texts come before the calls of an answer")


def _parts(found: list[Round]) -> Iterator[ImagePart | FilePart]:
    """Every image and file, those of results as well."""
    for one in found:
        if isinstance(one, Results):
            for back in one.returns:
                yield from images_of(back.parts)
        else:
            yield from images_of(one.parts)


def _is_text(part: ImagePart | FilePart) -> bool:
    return isinstance(part, FilePart) and part.media_type.startswith("text/")


def _is_image(part: ImagePart | FilePart) -> bool:
    return part.media_type.lower().startswith("image/") or (isinstance(part, ImagePart) and not part.media_type)
