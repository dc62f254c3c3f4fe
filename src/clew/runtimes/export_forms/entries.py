"""A transcript as the entries of a document: prompts, answers with their calls, and marks between them."""

from collections.abc import Iterable, Iterator

import msgspec

from clew.model import events as e
from clew.model.passage import passage_of
from clew.model.transcript import Item
from clew.runtimes.adapters.interchange import Called, Exchange
from clew.runtimes.rounds import Answer, Prompt, Results


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A line about something that is not part of the conversation."""

    key: str
    at: int
    text: str


Entry = Exchange | Mark


def entries(items: Iterable[Item]) -> Iterator[Entry]:
    """The entries; the consecutive pieces of one answer become one."""
    answer: Exchange | None = None
    message = ""
    for item in items:
        if item.is_bookkeeping:
            continue
        body = item.event.body if item.event is not None else None
        piece = _piece(item, body)
        if piece is None:
            if answer is not None:
                yield answer
            answer = None
            yield _other(item, body)
            continue
        own = getattr(body, "message", "")
        if answer is not None and answer.side == item.side and own in ("", message):
            answer = _longer(answer, piece)
            continue
        if answer is not None:
            yield answer
        answer, message = piece, own
    if answer is not None:
        yield answer


def _piece(item: Item, body: e.AnyBody | None) -> Exchange | None:
    """A piece of an answer; None for all other items."""
    key = str(item.seq)
    match body:
        case e.CallMade():
            back = item.returned.body if item.returned is not None else None
            called = Called(made=body, back=back if isinstance(back, e.CallReturned) else None)
            if isinstance(back, e.Removed):
                called.gone = back.how
            round = Answer(key=key, at=item.at, parts=(body,), model=body.model)
            return Exchange(round=round, calls=[called], side=item.side)
        case e.MessageAdded(role="assistant"):
            round = Answer(key=key, at=item.at, parts=body.content, model=body.model)
            return Exchange(round=round, side=item.side)
        case _:
            return None


def _longer(answer: Exchange, piece: Exchange) -> Exchange:
    if not isinstance(answer.round, Answer) or not isinstance(piece.round, Answer):
        raise AssertionError("only answers have pieces")
    round = msgspec.structs.replace(answer.round, parts=(*answer.round.parts, *piece.round.parts))
    return Exchange(round=round, calls=[*answer.calls, *piece.calls], side=answer.side)


def _other(item: Item, body: e.AnyBody | None) -> Entry:
    key = str(item.seq)
    match body:
        case e.MessageAdded(role=role):
            return Exchange(round=Prompt(key=key, at=item.at, parts=body.content, role=role), side=item.side)
        case e.Compacted(summary=summary):
            return Exchange(round=Prompt(key=key, at=item.at, parts=(e.TextPart(text=summary),)))
        case e.CallReturned():
            return Exchange(round=Results(key=key, at=item.at, returns=()), lost=[body])
        case e.Removed(how=how) if item.returned is not None and isinstance(item.returned.body, e.CallReturned):
            mark = e.TextPart(text=f"[a call that was {how}]")
            round = Prompt(key=key, at=item.at, parts=(mark,), role="system")
            return Exchange(round=round, lost=[item.returned.body])
        case _:
            return Mark(key=key, at=item.at, text=_text(item, body))


def _text(item: Item, body: e.AnyBody | None) -> str:
    if body is None:
        verb = "event was" if item.withdrawn == 1 else "events were"
        return f"{item.withdrawn:,} {verb} taken back by a rewind"
    if isinstance(body, e.Removed):
        return f"{body.kind.replace('_', ' ')}: its content was {body.how}"
    passage = passage_of(body)
    words = ", ".join(" ".join(text.split()) for text in passage.texts if text) if passage else ""
    kind = body.kind.replace("_", " ")
    return f"{kind}: {words}" if words else kind
