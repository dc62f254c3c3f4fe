"""A page of a transcript as text for an llm: each event with its seq, and the cursor of the next slice.

A cursor is the seq of the next event, or `SEQ+N`: the event SEQ alone, from its character N on.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from clew.mcp.outgoing import MOST_CHARACTERS, Mask, moment
from clew.model import events as e
from clew.model.errors import InvalidInput
from clew.model.plain import plain
from clew.model.title import uncut
from clew.model.transcript import Item
from clew.service.kernel.results import whole
from clew.service.sessions.transcript import Transcript

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


def transcript(page: Transcript, mask: Mask, *, upto: int = 0, most: int = MOST_CHARACTERS) -> Slice:
    """The part of a page that fits into `most` characters; with `upto` nothing that begins after that seq."""
    texts: list[str] = []
    room = most
    for item, pieces in _items(page):
        if upto and item > upto:
            return Slice(text="\n\n".join(texts), last_seq=upto, next="")
        shown = "\n\n".join(_cut(piece, mask) for piece in pieces)
        if texts and len(shown) > room:
            return Slice(text="\n\n".join(texts), last_seq=item - 1, next=str(item))
        texts.append(shown)
        room -= len(shown) + 2
    return Slice(text="\n\n".join(texts), last_seq=page.last, next=str(page.next + 1) if page.next else "")


def inside(page: Transcript, mask: Mask, at: Cursor, *, most: int = MOST_CHARACTERS) -> Slice | None:
    """One event alone, from one of its characters on; None if the page does not have it."""
    pieces = (piece for _, pieces in _items(page) for piece in pieces)
    piece = next((piece for piece in pieces if piece.seq == at.seq), None)
    if piece is None:
        return None
    head, text = _shown(piece, mask)
    end = at.character + most
    following = f"{at.seq}+{end}" if end < len(text) else str(at.seq + 1)
    where = f"characters {min(at.character, len(text))} to {min(end, len(text))} of {len(text)}"
    return Slice(text=f"{head} ({where})\n{text[at.character : end]}", last_seq=at.seq, next=following)


# Pieces of text -------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What one event says: a call and its return are two, one right after the other."""

    seq: int
    at: int
    actor: str
    label: str
    text: str


def _items(page: Transcript) -> Iterator[tuple[int, list[_Piece]]]:
    """The items of a page, each with its seq, and the subagents that were called in a turn after its items."""
    for turn in page.turns:
        for item in turn.items:
            yield item.seq, list(_pieces(item))
        for subagent in turn.subagents:
            text = f"{uncut(subagent.title)}\n[a session of its own: {subagent.events:,} events, {subagent.state}]"
            label = f"subagent {subagent.session}"
            yield turn.items[-1].seq if turn.items else page.last, [_Piece(0, subagent.began_at, "", label, text)]


def _pieces(item: Item) -> Iterator[_Piece]:
    if item.event is None:
        yield _Piece(item.seq, item.at, "", "rewound", f"[{item.withdrawn:,} events before this were taken back]")
        return
    side = f" of {item.side}" if item.side else ""
    label, text = _label_and_text(whole(item.event).body)
    yield _Piece(item.seq, item.at, item.event.actor, f"{label}{side}", text)
    if item.returned is not None:
        label, text = _label_and_text(item.returned.body)
        yield _Piece(item.returned.seq, item.at + (item.duration_us or 0), item.returned.actor, label, text)


def _cut(piece: _Piece, mask: Mask) -> str:
    head, text = _shown(piece, mask)
    if len(text) > LONGEST:
        left = len(text) - LONGEST
        text = f"{text[:LONGEST]}\n[cut: {left:,} more characters; cursor {piece.seq}+{LONGEST} reads on]"
    return f"{head}\n{text}" if text else head


def _shown(piece: _Piece, mask: Mask) -> tuple[str, str]:
    """The heading of a piece, and its text."""
    seq = f"#{piece.seq} " if piece.seq else ""
    # Mask first, then cut: the scanner does not recognise half of a secret.
    words = (moment(piece.at), piece.actor, piece.label)
    return plain(mask(seq + " ".join(word for word in words if word))), plain(mask(piece.text))


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
        case e.Compacted(summary=summary):
            return "compacted", summary
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
