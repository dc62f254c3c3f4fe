"""What readers of whole messages share: the bodies of one message in order, and documents taken apart into records.

Texts, thoughts and images that follow each other are one `message_added`; a call, a result or an unknown block ends it.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlparse

import msgspec
from msgspec import Raw

from clew.model.events import (
    CallMade,
    CallReturned,
    Draft,
    ImagePart,
    MessageAdded,
    Opaque,
    Part,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Usage,
    UsageCounted,
)
from clew.model.title import shortened
from clew.runtimes.contract import Reading, Record, opaque, raw
from clew.runtimes.records import without_halves
from clew.runtimes.titles import Titled, prompt_text, title_drafts

LONGEST_ID = 200


class Chat(msgspec.Struct, omit_defaults=True):
    """What a reader of messages remembers: whether the session is attached and titled, and its calls without result.

    `open_calls` are ids of calls, for programs whose results name none.
    """

    attached: bool = False
    titled: bool = False
    model: str = ""
    open_calls: list[str] = []


class Bodies:
    """The bodies of one message, as they are added. `answer` is the id of an llm's answer."""

    def __init__(self, reading: Reading[Any], role: str, *, answer: str = "", model: str = "") -> None:
        self._reading = reading
        self._role = role
        self._about: dict[str, Any] = {"message": answer, "model": model} if role == "assistant" else {}
        self._parts: list[Part] = []
        self._bodies: list[Any] = []

    def text(self, text: str | None) -> None:
        if text:
            self._parts.append(TextPart(text=text))

    def thinking(self, text: str | None, signature: str | None = None) -> None:
        if text or signature:
            self._parts.append(ThinkingPart(text=text or "", signature=signature or ""))

    def image(self, encoded: str, media_type: str | None = None) -> None:
        """An image as base64 or as a data URL; anything else is kept verbatim."""
        head, comma, data = encoded.rpartition(",")
        try:
            blob = self._reading.blob(base64.b64decode(data, validate=True))
        except ValueError:  # What is not ASCII, and what is not base64.
            self.other("image", msgspec.json.encode({"image": encoded}))
            return
        named = head.removeprefix("data:").partition(";")[0] if comma else ""
        self._parts.append(ImagePart(blob=blob, media_type=media_type or named))

    def call(self, id: str, tool: str, input: Raw) -> None:
        self._flush()
        self._bodies.append(CallMade(call=id, tool=tool, input=input if bytes(input) else Raw(b"{}"), **self._about))

    def returned(self, call: str, output: Raw, *, failed: bool = False) -> None:
        self._flush()
        output = output if bytes(output) else Raw(b"null")
        self._bodies.append(CallReturned(call=call, output=output, failed=failed))

    def returned_values(self, call: str, values: list[Any], *, failed: bool = False) -> None:
        """A result that is a list of values; of one value, that."""
        self.returned(call, raw(values[0] if len(values) == 1 else values), failed=failed)

    def other(self, kind: str, block: bytes) -> None:
        """A block that is kept verbatim."""
        self._flush()
        self._bodies.append(opaque(f"{self._reading.runtime}.{kind or 'block'}", block, "").body)

    def drafts(self, source: str, at: int | None, record: bytes, *, usage: Usage | None = None) -> list[Draft]:
        """The drafts of the message, with the title that a first prompt gives; the record itself if it says nothing."""
        self._flush()
        spent = usage if usage and usage != Usage() else None
        if not any(type(body) is not Opaque for body in self._bodies):
            self._bodies = [opaque(f"{self._reading.runtime}.{self._role or 'record'}", record, source, at).body]
        said = next((i for i, body in enumerate(self._bodies) if isinstance(body, MessageAdded | CallMade)), None)
        if spent is not None and said is not None:
            self._bodies[said] = msgspec.structs.replace(self._bodies[said], usage=spent)
        drafts = drafts_of(self._bodies, source, at)
        if spent is not None and said is None:
            drafts.append(Draft(body=UsageCounted(usage=spent, **self._about), source=f"{source}/usage", said_at=at))
        return [*drafts, *title_of(self._bodies, self._reading.state, source, at)]

    def _flush(self) -> None:
        alone = self._parts[0].text if len(self._parts) == 1 and isinstance(self._parts[0], TextPart) else ""
        if self._parts:
            held = () if alone else tuple(self._parts)
            self._bodies.append(MessageAdded(role=self._role, text=alone, parts=held, **self._about))
        self._parts.clear()


def drafts_of(bodies: list[Any], source: str, at: int | None) -> list[Draft]:
    """A draft for each body; the second has the source `/1`."""
    return [Draft(body=body, source=f"{source}/{i}" if i else source, said_at=at) for i, body in enumerate(bodies)]


def title_of(bodies: Iterable[Any], state: Titled, source: str, at: int | None) -> list[Draft]:
    """The title that the first prompt among the bodies gives."""
    text = next((text for body in bodies if (text := prompt_text(body))), "")
    return title_drafts(text, state, source=source, at=at) if text else []


def attached(
    reading: Reading[Any], key: str, at: int | None, *, cwd: str = "", version: str = "", title: str = ""
) -> list[Draft]:
    """The runtime and, if the program names the session, its title."""
    reading.state.attached = True
    body = RuntimeAttached(runtime=reading.runtime, native=reading.native, cwd=cwd, runtime_version=version)
    drafts = [Draft(body=body, source=f"{key}/runtime", said_at=at)]
    if words := " ".join(title.split()):
        reading.state.titled = True
        drafts.append(Draft(body=SessionTitled(title=shortened(words)), source=f"{key}/title", said_at=at))
    return drafts


def once_attached(reading: Reading[Any], key: str, at: int | None, *, cwd: str = "") -> list[Draft]:
    """The runtime before the first record of a session."""
    return [] if reading.state.attached else attached(reading, key, at, cwd=cwd)


def json_or_text(text: str | None) -> Raw:
    """Text that should be JSON; if it is not, a JSON string of it."""
    try:
        msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Raw(msgspec.json.encode(text))
    return Raw((text or "{}").encode())


def json_text(text: str | None) -> Raw:
    """A text as verbatim JSON."""
    return Raw(msgspec.json.encode(text or ""))


def document(data: bytes, elements: str, *, id: str = "id") -> Iterator[Record]:
    """The records of a document: its other members as `about`, then each element of its list `elements`, verbatim.

    An element is named by its member `id`, or by its number. A document without the list raises LookupError.
    """
    # msgspec does not check the encoding of raw elements.
    members = msgspec.json.decode(data.decode("utf-8", "replace").encode(), type=dict[str, Raw])
    listed = msgspec.json.decode(members.pop(elements), type=list[Raw])
    yield "about", msgspec.json.encode(members)
    yield from keyed((id_of(element, id), bytes(element)) for element in listed)


def keyed(elements: Iterable[tuple[str, bytes]]) -> Iterator[Record]:
    """Each element under its id; under its number if it has none, or one that was there before."""
    used = {"about"}
    for number, (name, element) in enumerate(elements):
        key = name if name and name not in used else f"#{number}"
        used.add(key)
        yield key, element


def id_of(element: Raw, name: str) -> str:
    """The id of an element; empty if it has none."""
    try:
        value = msgspec.json.decode(without_halves(bytes(element)))
    except (msgspec.DecodeError, RecursionError):
        return ""
    id = value.get(name) if isinstance(value, dict) else ""
    return id[:LONGEST_ID] if isinstance(id, str) else ""


def whole_number(value: object) -> int:
    """A count of tokens; 0 for anything that is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def directory(folder: str) -> str:
    """The path of a folder that can be a file URL."""
    return unquote(urlparse(folder).path) if folder.startswith("file://") else folder
