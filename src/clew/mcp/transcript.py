"""A session as a readable transcript, a slice at a time: each event with its seq, and the cursor of the next slice.

A cursor is the seq of the next event, or `SEQ+N`: the event SEQ alone, from its character N on.
"""

import re
from collections.abc import Iterable

import msgspec

from clew.mcp.outgoing import MOST_CHARACTERS, Mask, moment
from clew.model import events as e
from clew.model.errors import InvalidInput
from clew.model.plain import plain

# The longest text of one event in a slice: outputs of tools must not crowd out the conversation.
LONGEST = 2_000

_CURSOR = re.compile(r"(\d{1,15})(?:\+(\d{1,15}))?", re.ASCII)


class Cursor(msgspec.Struct, frozen=True):
    """Where a slice begins: at an event, or inside one."""

    seq: int
    character: int = 0
    is_inside: bool = False


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a transcript; `next` is the cursor of what follows, empty at the end."""

    text: str
    last_seq: int
    next: str


def parse_cursor(cursor: str) -> Cursor:
    """The parsed cursor."""
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidInput(
            f"{cursor[:40]!r} is not a valid cursor; use the `next` of the slice before, such as '41' or '12+2000'"
        )
    seq, character = match.groups()
    return Cursor(int(seq), int(character or 0), character is not None)


def transcript(events: list[e.Event], mask: Mask, *, more: bool, most: int = MOST_CHARACTERS) -> Slice:
    """The transcript of as many events as fit into `most` characters; `more` says that other events follow."""
    texts: list[str] = []
    room = most
    last = 0
    for event in events:
        head, text = _shown(event, mask)
        if len(text) > LONGEST:
            left = len(text) - LONGEST
            text = f"{text[:LONGEST]}\n[cut: {left:,} more characters; cursor {event.seq}+{LONGEST} reads on]"
        shown = f"{head}\n{text}" if text else head
        if texts and len(shown) > room:
            return Slice(text="\n\n".join(texts), last_seq=last, next=str(event.seq))
        texts.append(shown)
        room -= len(shown) + 2
        last = event.seq
    return Slice(text="\n\n".join(texts), last_seq=last, next=str(last + 1) if more and last else "")


def inside(event: e.Event, mask: Mask, character: int, *, most: int = MOST_CHARACTERS) -> Slice:
    """One event alone, from one of its characters on."""
    head, text = _shown(event, mask)
    end = character + most
    following = f"{event.seq}+{end}" if end < len(text) else str(event.seq + 1)
    where = f"characters {min(character, len(text))} to {min(end, len(text))} of {len(text)}"
    return Slice(text=f"{head} ({where})\n{text[character:end]}", last_seq=event.seq, next=following)


def _shown(event: e.Event, mask: Mask) -> tuple[str, str]:
    """The heading of an event, and its text."""
    label, text = _label_and_text(event.body)
    at = event.at if event.said_at is None else event.said_at
    # Mask first, then cut: the scanner does not recognise half of a secret.
    return plain(mask(f"#{event.seq} {moment(at)} {event.actor} {label}")), plain(mask(text))


def _label_and_text(body: e.AnyBody) -> tuple[str, str]:
    """What kind of body it is, and its text."""
    match body:
        case e.MessageAdded(role=role):
            return role, _of_parts(body.content)
        case e.CallMade(tool=tool, input=value):
            return f"call {tool}", bytes(value).decode()
        case e.CallReturned(output=value, failed=failed, parts=parts):
            text = _of_json(value)
            return "failed" if failed else "returned", "\n".join(piece for piece in (text, _of_parts(parts)) if piece)
        case e.FactLearned(fact=id, text=text):
            return f"fact {id}", text
        case e.DecisionMade(decision=id, choice=choice, why=why, rejected=rejected):
            reason = f"\nbecause {why}" if why else ""
            return f"decision {id}", choice + reason + (f"\nrejected: {'; '.join(rejected)}" if rejected else "")
        case e.Removed(how=how):
            return body.kind, f"[its content was {how}]"
        case e.Opaque(raw=raw):
            return body.kind, f"[a record of the program, kept as it is: {len(raw):,} characters]"
        case _:
            fields = msgspec.json.encode(body).decode()
            return body.kind, "" if fields == "{}" else fields


def _of_parts(parts: Iterable[e.Part]) -> str:
    return "\n".join(_of_part(part) for part in parts)


def _of_part(part: e.Part) -> str:
    match part:
        case e.TextPart(text=text):
            return text
        case e.ThinkingPart(text=text):
            return f"[thinking] {text}"
        case e.ImagePart() | e.FilePart():
            return f"[{part.media_type or 'file'} {part.name}]".replace(" ]", "]")


def _of_json(value: msgspec.Raw) -> str:
    """A JSON value as text: a string as itself, nothing for null, anything else as it was written."""
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        decoded = value
    if decoded is None:
        return ""
    return decoded if isinstance(decoded, str) else bytes(value).decode("utf-8", "replace")
