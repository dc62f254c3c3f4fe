"""Error codes to HTTP statuses: the one table, printed in docs/server.md. Every refusal is a problem+json."""

from typing import Any

import msgspec

from clew.model.errors import ClewError

STATUS = {
    "invalid_input": 400,
    "too_large": 413,
    "unauthenticated": 401,
    "denied": 403,
    "not_found": 404,
    "ambiguous_id": 409,
    "conflict": 409,
    "stale_head": 409,
    "source_reused": 409,
    "wrong_state": 409,
    "lease_held": 409,
    "lease_lost": 409,
    "budget_exceeded": 409,
    "on_hold": 409,
    "has_forks": 409,
    "lossy": 409,
    "too_many_requests": 429,
    "error": 500,
    "store": 500,
    "damaged": 500,
    "schema_newer": 500,
    "schema_outdated": 500,
    "unavailable": 503,
    "busy": 503,
    "disk_full": 507,
}
# Faults of the server itself are for its operator: the store's own messages name files and hosts.
OWN_FAULTS = {
    "error": "something went wrong in clew; its log has this request id",
    "store": "the store could not carry this out; the log of the server says why",
    "damaged": "the store holds bytes that are not what was written; the log of the server says where",
    "schema_newer": "the store was made by a newer clew than this server; upgrade the server",
    "schema_outdated": "the store was made by an older clew than this server; run `clew migrate` on it",
    "unavailable": "the store cannot be reached just now; try again",
    "busy": "the store is busy; try again",
    "disk_full": "the disk of the store is full; nothing was written",
}
RETRY_SECONDS = {"too_many_requests": b"1", "unavailable": b"2", "busy": b"1"}
CONTENT_TYPE = b"application/problem+json"

Headers = list[tuple[bytes, bytes]]


class Refused(Exception):
    """A refusal with an HTTP status of its own, under one of our codes."""

    def __init__(self, status: int, code: str, message: str, headers: Headers | None = None, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or []
        self.details = details


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal as it is sent: the fields of RFC 9457, the stable code of the error, and the id of the request."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request: str


def problem(error: Exception, request: str, *, challenge: str = "Bearer") -> tuple[int, bytes, Headers]:
    """The status, body and headers for an error. An unexpected error is not described."""
    if isinstance(error, Refused):
        return _answer(error.status, error.code, str(error), error.details, request, error.headers)
    if not isinstance(error, ClewError):
        return _answer(500, "error", OWN_FAULTS["error"], {}, request, [])
    code = error.code
    headers: Headers = []
    if code == "unauthenticated":
        headers.append((b"www-authenticate", challenge.encode("latin-1", "replace")))
    if code == "too_large":
        headers.append((b"connection", b"close"))  # Otherwise the client would send the rest.
    if code in RETRY_SECONDS:
        headers.append((b"retry-after", RETRY_SECONDS[code]))
    if code in OWN_FAULTS:
        details = {"ambiguous": True} if error.details.get("ambiguous") else {}
        return _answer(STATUS[code], code, OWN_FAULTS[code], details, request, headers)
    return _answer(STATUS.get(code, 500), code, str(error), error.details, request, headers)


def _answer(
    status: int, code: str, detail: str, details: dict[str, Any], request: str, headers: Headers
) -> tuple[int, bytes, Headers]:
    refusal = Refusal(
        type=f"/errors/{code}", title=code.replace("_", " "), status=status, detail=detail, code=code, request=request
    )
    fields = {**details, **msgspec.structs.asdict(refusal)}
    return status, msgspec.json.encode(fields, enc_hook=str), [(b"content-type", CONTENT_TYPE), *headers]
