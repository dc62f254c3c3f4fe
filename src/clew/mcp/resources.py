"""Resources: addresses of sessions. A text that is cut ends with the address of the rest."""

import re
from typing import Any, NamedTuple

import msgspec

from clew.mcp.outgoing import ABOUT, block, mask_of, values_of
from clew.mcp.tools import read_brief, read_slice
from clew.model.errors import NotFound
from clew.model.ids import ALPHABET
from clew.model.plain import plain
from clew.model.title import uncut
from clew.secrets.blobs import SIGN_WITHIN, is_binary, wide_codec
from clew.service import Context, call
from clew.service.kernel.results import to_json
from clew.service.sessions.objects import OpenedObject

PAGE = 20
# A person chooses a resource, so it may be longer than the answer of a tool.
MOST_CHARACTERS = 100_000
MOST_EVENTS = 1000

_ADDRESS = re.compile(
    rf"clew://session/([{ALPHABET}]{{1,20}})"
    r"(?:/(brief)|/(scratch)|/events/(\d{1,15})-(\d{1,15})|/objects/([0-9a-f]{8,64}))?",
    re.ASCII,
)


class Listed(NamedTuple):
    """A session in the list of resources."""

    uri: str
    name: str
    description: str


class Read(NamedTuple):
    """The content of an address."""

    uri: str
    media_type: str
    text: str


class Template(NamedTuple):
    """A kind of address."""

    uri: str
    name: str
    description: str
    media_type: str


TEMPLATES = (
    Template(
        "clew://session/{id}",
        "session",
        "Where a session stands: state, head, lineage, and how much it knows.",
        "application/json",
    ),
    Template(
        "clew://session/{id}/brief",
        "brief",
        "What the next worker needs to continue a session, on a page.",
        "text/plain",
    ),
    Template(
        "clew://session/{id}/scratch",
        "scratch",
        "The JSON values that the agent of a session keeps by name, such as what it does next.",
        "application/json",
    ),
    Template(
        "clew://session/{id}/events/{from}-{to}",
        "events",
        "What was said and done in a session, from one seq to another.",
        "text/plain",
    ),
    Template(
        "clew://session/{id}/objects/{digest}",
        "object",
        "An artifact, an image or a file that a session names: its text, or what it is.",
        "text/plain",
    ),
)


def listed(context: Context, cursor: str) -> tuple[list[Listed], str]:
    """The sessions with the latest activity, and the cursor of those that follow."""
    given = {"limit": PAGE, **({"before": cursor} if cursor else {})}
    sessions = call(context, "sessions", given)
    mask = mask_of(context)
    lines = [
        Listed(
            uri=f"clew://session/{session.id}",
            name=plain(mask(" ".join(uncut(session.title).split()) or "(untitled)"))[:100],
            description=plain(
                mask(" ".join(part for part in (session.runtime, session.project, session.state) if part))
            )[:200],
        )
        for session in sessions
    ]
    return lines, sessions[-1].id if len(sessions) == PAGE else ""


def first_page(context: Context) -> dict[str, object]:
    """The first page as the protocol words it: a client that asks for it at its start waits for no SDK."""
    page, following = listed(msgspec.structs.replace(context, is_for_llm=True), "")
    described = [{**entry._asdict(), "mimeType": "application/json"} for entry in page]
    return {"resources": described} | ({"nextCursor": following} if following else {})


def read(context: Context, uri: str) -> Read:
    """The content of a clew:// address."""
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        raise NotFound(
            f"{uri[:200]!r} is not a valid address; there are {', '.join(template.uri for template in TEMPLATES)}"
        )
    id, brief, scratch, first, last, digest = match.groups()
    if scratch:
        return Read(uri, "application/json", _scratch(context, id))
    if digest:
        return Read(uri, "text/plain", _object(context, id, digest))
    if brief:
        return Read(uri, "text/plain", read_brief(context, id).text)
    if first:
        return Read(uri, "text/plain", _events(context, id, max(1, int(first)), int(last)))
    return Read(uri, "application/json", msgspec.json.encode(_session(context, id)).decode())


def _session(context: Context, id: str) -> dict[str, Any]:
    shown = call(context, "show", {"session": id})
    values = {
        "session": shown.session, "lineage": shown.lineage, "forks": len(shown.forks), "facts": len(shown.facts),
        "decisions": len(shown.decisions), "progress": shown.progress, "touched": len(shown.working_set),
    }  # fmt: skip
    return {"about": ABOUT, **values_of(values, mask_of(context))}


def _scratch(context: Context, id: str) -> str:
    values = to_json({"about": ABOUT, "scratch": call(context, "scratch", {"session": id})})
    return plain(mask_of(context)(values.decode()))


def _object(context: Context, id: str, digest: str) -> str:
    """The beginning of an object, if it is a text."""
    opened: OpenedObject = call(context, "object_open", {"session": id, "object": digest})
    info = opened.info
    about = f"Object {info.digest[:12]} of session {id}, {info.size:,} bytes, {plain(info.media_type) or 'of no type'}"
    data = bytearray()
    for piece in opened.pieces:
        data += piece
        if len(data) > MOST_CHARACTERS:
            break
    if is_binary(bytes(data[:SIGN_WITHIN])):
        return f"{about}. It is no text; `clew object open` writes it to a file."
    text = plain(data.decode(wide_codec(bytes(data)) or "utf-8", "replace"))
    cut = len(text) > MOST_CHARACTERS
    after = "It is cut here; `clew object open` writes all of it to a file." if cut else ""
    return block(text[:MOST_CHARACTERS], f"{about}:", after=after)


def _events(context: Context, id: str, first: int, last: int) -> str:
    if last < first:
        raise NotFound(f"no events from {first} to {last}; the first seq comes first")
    count = min(last - first + 1, MOST_EVENTS)
    piece = read_slice(context, id, str(first), count, upto=last, most=MOST_CHARACTERS)
    next_seq = int(piece.next or 0)
    after = f"It goes on at clew://session/{id}/events/{next_seq}-{last}" if next_seq and next_seq <= last else ""
    return block(piece.text, f"Session {id}, events {first} to {piece.last_seq}:", after=after)
