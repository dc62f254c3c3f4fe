"""Bodies to and from JSON text. The only module that knows the wire names.

Text is encoded once, when a draft is accepted, and kept as it is for ever. A body whose shape changes gets a higher
`version` and a step in UPCASTS; what this program does not know stays `Opaque`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from clew.model.errors import InvalidInput
from clew.model.events import KINDS, Body, Draft, Event, Opaque, Removed
from clew.model.ids import check_kind, plain_kind
from clew.model.numbers import check_numbers, check_values

# Upcasts: from (kind, version) to the same body one version later, as plain JSON values.
UPCASTS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_decoders = {kind: msgspec.json.Decoder(body).decode for kind, body in KINDS.items()}
_drafted = sorted(kind for kind, body in KINDS.items() if not body.reserved)
# Kinds with a field that is kept verbatim, and so may hold anything.
_verbatim = {kind for kind, body in KINDS.items() if any("Raw" in str(hint) for hint in body.__annotations__.values())}
_fields = {kind: frozenset(body.__struct_fields__) for kind, body in KINDS.items()}


def encode(body: Body | Opaque) -> bytes:
    """Encode a body as JSON text; refuse one that could not be decoded again, and would make its session unreadable."""
    if isinstance(body, Opaque):
        return _encode_foreign(body)
    try:
        text = _encode(body)
        if body.kind in _verbatim:
            text.decode()
            _decoders[body.kind](text)
        return text
    except UnicodeError as error:
        raise InvalidInput(
            f"{body.kind}: text with a lone surrogate is not Unicode and cannot be kept; "
            "replace it, for example with text.encode('utf-8', 'replace')"
        ) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{body.kind}: a value that is not JSON cannot be kept: {error}") from error


def _encode_foreign(body: Opaque) -> bytes:
    if plain_kind(body.kind) != body.kind:
        check_kind(body.kind)
    try:
        text = body.raw.encode()
        msgspec.json.decode(text, type=msgspec.Raw)
        return text
    except (UnicodeError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{body.kind}: what is not JSON cannot be kept: {error}") from error


# Decoders by kind and version. A reader of many events uses them directly and saves the call of `decode`.
DECODERS = {(kind, body.version): _decoders[kind] for kind, body in KINDS.items()}


def decode(kind: str, version: int, text: str) -> Body | Opaque:
    """Decode a stored body. A kind or version that this program does not know becomes `Opaque`."""
    decoder = _decoders.get(kind)
    if decoder is None:
        return Opaque(kind=kind, raw=text, version=version)
    current = KINDS[kind].version
    if version == current:
        return decoder(text)
    if version > current:
        return Opaque(kind=kind, raw=text, version=version)
    values = msgspec.json.decode(text)
    for step in range(version, current):
        values = UPCASTS[kind, step](values)
    return decoder(msgspec.json.encode(values))


def draft(line: str | bytes | Mapping[str, Any]) -> Draft:
    """A draft that somebody writes, from JSON such as `{"kind": "message_added", "role": "user", "text": "hi"}`."""
    raws = _split(line)
    if isinstance(line, Mapping):
        check_values(line)
    made = _draft(raws)
    if isinstance(made.body, Opaque):
        check_kind(made.body.kind)
    if made.body.kind in _verbatim or isinstance(made.body, Opaque):
        for raw in raws.values():
            check_numbers(bytes(raw))
    return made


def imported_draft(line: Mapping[str, Any]) -> Draft:
    """A draft that another log has accepted: it is kept as it is there."""
    return _draft(_split(line))


def _draft(raws: dict[str, msgspec.Raw]) -> Draft:
    kind = _value(raws.pop("kind", None), str, "kind")
    if not kind:
        raise InvalidInput(f"a draft needs a 'kind'; known kinds: {', '.join(_drafted)}")
    source = _value(raws.pop("source", None), str, "source")
    said_at = _value(raws.pop("said_at", None), int, "said_at")
    return Draft(body=_body(kind, raws), source=source, said_at=said_at)


def reserved(kind: str) -> str:
    """Why a draft of this kind is refused."""
    return (
        f"{kind} is written by an operation of its own (open, fork, pause, resume, close, archive, budget, lease, "
        "retention, erase, star), not by append"
    )


def event_fields(event: Event) -> dict[str, Any]:
    """An event as one flat JSON object: the envelope, then the body's own fields."""
    fields: dict[str, Any] = {"session": event.session, "seq": event.seq, "kind": event.kind, "at": event.at}
    fields["actor"] = event.actor
    if event.source is not None:
        fields["source"] = event.source
    if event.said_at is not None:
        fields["said_at"] = event.said_at
    body = event.body
    if isinstance(body, Removed):
        fields["removed"] = body.how
    elif isinstance(body, Opaque):
        fields["opaque"] = msgspec.Raw(body.raw.encode())
    else:
        fields.update(msgspec.json.decode(_encode(body), type=dict[str, msgspec.Raw]))
    return fields


def event_from(text: bytes | msgspec.Raw) -> Event:
    """Decode a flat event; a body that this program does not know is kept verbatim."""
    about = _envelope(text)
    body: Body | Opaque | Removed
    if about.removed is not None:
        body = Removed(kind=about.kind, how=about.removed)
    elif bytes(about.opaque):
        body = Opaque(kind=about.kind, raw=bytes(about.opaque).decode())
    else:
        raws = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        rest = _encode({name: raw for name, raw in raws.items() if name not in _Envelope.__struct_fields__}).decode()
        body = understood(about.kind, rest)
    return Event(
        about.session, about.seq, about.position, about.at, about.said_at, about.actor, about.source, b"", body
    )


def understood(kind: str, text: str, version: int | None = None) -> Body | Opaque:
    """Decode another program's body; one that does not fit its kind becomes `Opaque` under a foreign kind."""
    try:
        return decode(kind, KINDS[kind].version if version is None and kind in KINDS else version or 1, text)
    except msgspec.DecodeError:
        return Opaque(kind=f"clew.{kind}", raw=text)


class _Envelope(msgspec.Struct, frozen=True):
    session: str
    seq: int
    kind: str
    at: int
    actor: str
    position: int = 0
    source: str | None = None
    said_at: int | None = None
    removed: str | None = None
    opaque: msgspec.Raw = msgspec.Raw(b"")


_envelope = msgspec.json.Decoder(_Envelope).decode


def to_json(value: Any) -> str:
    """Any value of the model as JSON text, on one line."""
    return on_one_line(_encode(value)).decode()


def on_one_line(text: bytes) -> bytes:
    """JSON without line breaks. Verbatim JSON inside can have them, but only between its tokens."""
    return text.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in text or b"\r" in text else text


def _split(line: str | bytes | Mapping[str, Any]) -> dict[str, msgspec.Raw]:
    try:
        text = line if isinstance(line, str | bytes) else _encode(line)
        if isinstance(text, bytes):
            text.decode()  # The decoder does not validate raw values.
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"not a draft: {error}; expected one JSON object per draft, "
            'such as {"kind": "message_added", "role": "user", "text": "hi"}'
        ) from error


def _value(raw: msgspec.Raw | None, type: type[T], name: str) -> T | None:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=type | None)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{name!r}: {error}") from error


def _body(kind: str, raws: dict[str, msgspec.Raw]) -> Body | Opaque:
    text = _encode(raws)
    if "." in kind:
        try:
            return Opaque(kind=kind, raw=text.decode())
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{kind}: it holds bytes that are not UTF-8 ({error}); JSON is UTF-8") from error
    if kind not in KINDS:
        from difflib import get_close_matches  # Imported here: loading it takes longer than most commands run.

        close = get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known kinds: {', '.join(_drafted)}"
        raise InvalidInput(f"unknown kind {kind!r}; {hint} (a kind of your own needs a dot, such as 'myapp.{kind}')")
    if KINDS[kind].reserved:
        raise InvalidInput(reserved(kind))
    unknown = raws.keys() - _fields[kind]
    if unknown:
        raise InvalidInput(
            f"{kind} has no field {', '.join(sorted(map(repr, unknown)))}; it has {', '.join(sorted(_fields[kind]))}"
        )
    try:
        return _decoders[kind](text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{kind}: {error}") from error
