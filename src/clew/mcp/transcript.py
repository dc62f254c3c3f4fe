"""A session as a readable transcript, a slice at a time: each event under its seq, and a cursor to go on from.

A cursor is the seq to go on with, or `SEQ+N`: the event SEQ alone, from its character N on.
"""

import re
from collections.abc import Iterable

import msgspec

from clew.mcp.outgoing import MOST_CHARACTERS, Mask, moment
from clew.model import events as e
from clew.model.errors import InvalidInput
from clew.model.plain import plain

# Of one event, unless it is asked for alone: outputs of tools would crowd out what was said about them.
LONGEST = 2_000

_CURSOR = re.compile(r"(\d{1,15})(?:\+(\d{1,15}))?", re.ASCII)


class Place(msgspec.Struct, frozen=True):
    """Where to go on: at an event, or inside of one."""

    seq: int
    character: int = 0
    is_inside: bool = False


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a transcript; `next` is the cursor of what follows, empty at the end."""

    text: str
    last_seq: int
    next: str


def place(cursor: str) -> Place:
    """The place that a cursor means."""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInput(
            f"{cursor[:40]!r} is no cursor; use the `next` of the slice before, such as '41' or '12+2000'"
        )
    seq, character = found.groups()
    return Place(int(seq), int(character or 0), character is not None)


def transcript(events: list[e.Event], mask: Mask, *, more: bool, most: int = MOST_CHARACTERS) -> Slice:
    """The events as a transcript, as many as there is room for; `more` says that others follow them."""
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
    """The line above an event, and what it says."""
    label, text = _said(event.body)
    at = event.at if event.said_at is None else event.said_at
    # Masked before it is cut: half of a secret is not recognised.
    return plain(mask(f"#{event.seq} {moment(at)} {event.actor} {label}")), plain(mask(text))


def _said(body: e.AnyBody) -> tuple[str, str]:
    """What a body is, and what it says, in words."""
    match body:
        case e.MessageAdded(role=role):
            return role, _of_parts(body.content)
        case e.CallMade(tool=tool, input=value):
            return f"call {tool}", bytes(value).decode()
        case e.CallReturned(output=value, failed=failed, parts=parts):
            text = _of_json(value)
            return "failed" if failed else "returned", "\n".join(one for one in (text, _of_parts(parts)) if one)
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
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        found = value
    if found is None:
        return ""
    return found if isinstance(found, str) else bytes(value).decode("utf-8", "replace")
