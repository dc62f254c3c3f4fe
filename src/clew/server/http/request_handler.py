"""One request, in a thread: its arguments, the operation, and the answer, which is given once for an Idempotency-Key.

A request for an operation that can share a commit is prepared, committed together with others, and finished. Its answer
is kept in the commit itself, so that an Idempotency-Key costs no commit of its own.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from clew.model.errors import ClewError, InvalidInput, StaleHead
from clew.model.steps import end_step
from clew.server.http import idempotency
from clew.server.http.answer_text import NOTHING, AnswerText, NeedsNoMasking, joined, masked, unmasked
from clew.server.http.append_queue import Pending
from clew.server.http.arguments import from_body, from_path, from_query
from clew.server.http.compression import compressed, compressed_pieces
from clew.server.http.endpoints import Endpoint
from clew.server.http.exchange import Answer, Exchange
from clew.server.http.paging import cursor, link
from clew.server.http.problems import CONTENT_TYPE, Headers, Refused, problem
from clew.server.login.identity import SAFE
from clew.service.kernel.call import PreparedCall, call, prepare_call, record_done, request_of, run_in_pieces
from clew.service.kernel.context import Context
from clew.service.kernel.registry import Operation
from clew.service.kernel.results import to_json
from clew.service.sessions.events import MOST_ANSWER_BYTES
from clew.store import Store
from clew.store.log.plan import AlreadyAnswered, Appended, Request

JSON = (b"content-type", b"application/json")
SHOWN_ONCE = Refused(409, "conflict", "this was done, and the secret in its answer was shown once; make a new one")
UNKNOWN = Refused(
    409, "conflict", "the first request with this Idempotency-Key broke off and what it did is unknown; look first"
)
# An answer in pieces begins when this much of it is made; an error before that is answered as a problem.
BEGINNING_BYTES = 1024 * 1024
# The items of a list that are masked at once: enough that a pass costs little, and few enough for the cache.
MASKED_BYTES = 64 * 1024
_ETAG = re.compile(rb'(?:W/)?"(\d{1,19})(?:\.[0-9a-f]+)?"')

Later = Callable[[], Answer]
"""What is left to do for a request, in a thread that may wait."""


class RequestHandler:
    """Carries out one request for an operation."""

    __slots__ = ("_admit", "_body", "_endpoint", "_exchange", "_store", "_values")

    def __init__(
        self,
        admit: Callable[[], Context],
        store: Store,
        exchange: Exchange,
        endpoint: Endpoint,
        values: list[str],
        body: bytes,
    ) -> None:
        """`admit` authenticates the caller; `values` are the parameters in the path, in order."""
        self._admit = admit
        self._store = store
        self._exchange = exchange
        self._endpoint = endpoint
        self._values = values
        self._body = body

    def run(self) -> Answer:
        """Do all of it in this thread."""
        context, key = self._admit(), self._key()
        if not key:
            return self._called(context)
        if self._endpoint.operation.prepare is None:
            return self._called_once(context, key)
        outcome = self._prepared(context, key)
        if isinstance(outcome, Pending):
            self._store.commit([outcome.request])
            outcome = outcome.finish()
        return outcome if isinstance(outcome, Answer) else outcome()

    def prepare(self) -> Answer | Later | Pending[Answer | Later]:
        """Prepare the request; the caller commits several prepared requests at once."""
        context = self._admit()
        return self._prepared(context, self._key())

    def _key(self) -> str:
        """The Idempotency-Key; empty when there is none, or when nothing is changed."""
        key = self._exchange.headers.get(b"idempotency-key")
        if key is None or self._endpoint.method in SAFE:
            return ""
        return idempotency.check_key(key.decode("latin-1"))

    # Sharing a commit -------------------------------------------------------------------------------------------------

    def _prepared(self, context: Context, key: str) -> Answer | Later | Pending[Answer | Later]:
        operation = self._endpoint.operation
        try:
            arguments = self._arguments()
            is_expected = _expected(operation, self._exchange.headers, arguments)
            prepared = prepare_call(context, operation.name, arguments)
            request = request_of(prepared)
        except (ClewError, Refused) as error:
            if not key:
                raise
            return partial(self._refused_once, context, key, error)
        if not request.drafts:
            return partial(self._called_once, context, key) if key else partial(self._called, context)
        if key:
            claim = idempotency.Claim(context.principal, key, 0, self._digest(context))
            request.receipt = idempotency.receipt(self._store, claim, self._encoded)
        return Pending(request, partial(self._finished, prepared, request, key, is_expected=is_expected))

    def _finished(self, prepared: PreparedCall, request: Request, key: str, *, is_expected: bool) -> Answer | Later:
        """The answer to a request that was committed, or refused in the commit."""
        context = prepared.context
        error: ClewError | Refused
        try:
            appended = request.outcome()
        except AlreadyAnswered:
            return partial(self._called_once, context, key)
        except StaleHead as stale:
            error = _precondition(stale) if is_expected else stale
        except ClewError as refused:
            error = refused
        else:
            record_done(prepared)
            return Answer(200, unmasked(self._encoded(appended), NeedsNoMasking.DECLARED), [JSON])
        if not key:
            raise error
        if request.error is None:
            # Everything was stored and then refused: the commit left a claim, which is still ours.
            claim = idempotency.Claim(context.principal, key, 0, self._digest(context))
            return partial(self._refused, context, claim, error)
        return partial(self._refused_once, context, key, error)

    def _encoded(self, result: Appended) -> bytes:
        return to_json(result)

    # Once for a key ---------------------------------------------------------------------------------------------------

    def _called_once(self, context: Context, key: str) -> Answer:
        """Run, unless a request with this key has run; its answer is kept, a refusal too."""
        claim = idempotency.claim(self._store, context.principal, key, self._digest(context))
        if isinstance(claim, idempotency.Replay):
            return _replayed(claim)
        try:
            answer = self._called(context)
        except (ClewError, Refused) as error:
            return self._refused(context, claim, error)
        except Exception:
            idempotency.finish(self._store, claim, 409, problem(UNKNOWN, self._exchange.id)[1])
            raise
        if self._endpoint.operation.shows_secret:
            idempotency.finish(self._store, claim, 409, problem(SHOWN_ONCE, self._exchange.id)[1])
        else:
            idempotency.finish(self._store, claim, answer.status, answer.body)
        return answer

    def _refused_once(self, context: Context, key: str, error: ClewError | Refused) -> Answer:
        """Refuse, unless a request with this key was answered before."""
        claim = idempotency.claim(self._store, context.principal, key, self._digest(context))
        if isinstance(claim, idempotency.Replay):
            return _replayed(claim)
        return self._refused(context, claim, error)

    def _refused(self, context: Context, claim: idempotency.Claim, error: ClewError | Refused) -> Answer:
        """Keep a refusal as the answer, and raise it."""
        status, body, _ = problem(error, self._exchange.id)
        if error.details.get("ambiguous"):
            idempotency.finish(self._store, claim, 409, problem(UNKNOWN, self._exchange.id)[1])
        elif status >= 500 or status == 429:
            idempotency.release(self._store, claim)
        else:
            idempotency.finish(self._store, claim, status, masked(context, body))
        raise error

    def _digest(self, context: Context) -> bytes:
        scope = self._exchange.scope
        return idempotency.digest(
            self._exchange.method, scope["path"], scope["query_string"], self._body, context.rights
        )

    # Arguments and the answer -----------------------------------------------------------------------------------------

    def _called(self, context: Context) -> Answer:
        endpoint, exchange = self._endpoint, self._exchange
        arguments = self._arguments()
        if endpoint.operation.in_pieces is not None:
            return self._in_pieces(context, arguments)
        is_expected = _expected(endpoint.operation, exchange.headers, arguments)
        try:
            result = call(context, endpoint.operation.name, arguments)
        except StaleHead as error:
            raise _precondition(error) if is_expected else error from None
        if endpoint.is_masked and isinstance(result, list) and endpoint.method == "GET":
            return self._list(context, result, arguments)
        body = to_json(result)
        text = masked(context, body) if endpoint.is_masked else unmasked(body, NeedsNoMasking.DECLARED)
        return self._answer(result, arguments, text)

    def _list(self, context: Context, result: list[Any], arguments: Mapping[str, Any]) -> Answer:
        """A list, masked some items at a time; a long one is sent while the rest of it is masked."""
        headers = [JSON, *self._next_page(arguments, result)]
        pieces = _masked_pieces(context, result)
        beginning, is_whole = joined(pieces, BEGINNING_BYTES)
        return self._sent_in_pieces(beginning, None if is_whole else pieces, headers, held=MOST_ANSWER_BYTES)

    def _in_pieces(self, context: Context, arguments: Mapping[str, Any]) -> Answer:
        """The beginning of an answer that is sent while it is made; a refusal comes before it."""
        prepared = prepare_call(context, self._endpoint.operation.name, arguments)
        # The operation masks what it gives in pieces; test_no_secret_leaves.py asks for every form of it.
        pieces = (unmasked(piece, NeedsNoMasking.MASKED_BEFORE) for piece in run_in_pieces(prepared))
        record_done(prepared)
        beginning, is_whole = joined(pieces, BEGINNING_BYTES)
        return self._sent_in_pieces(beginning, None if is_whole else pieces, [JSON])

    def _sent_in_pieces(
        self, beginning: AnswerText, pieces: Iterator[AnswerText] | None, headers: Headers, *, held: int = 0
    ) -> Answer:
        accepted = self._exchange.headers.get(b"accept-encoding", b"")
        if pieces is None:
            body, more = compressed(beginning, accepted)
            return Answer(200, body, [*headers, *more])
        rest, more = compressed_pieces(chain([beginning], pieces), accepted)
        return Answer(200, NOTHING, [*headers, *more], rest, held)

    def _arguments(self) -> dict[str, Any]:
        endpoint, query = self._endpoint, self._exchange.scope["query_string"]
        operation, names = endpoint.operation, endpoint.names
        arguments: dict[str, Any] = {}
        if endpoint.method in ("GET", "DELETE"):
            arguments = from_query(operation, query, beside=names)
        else:
            media_type = self._exchange.headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            arguments = from_body(operation, self._body, media_type.decode("latin-1"), beside=names)
            arguments |= from_query(operation, query, beside=(*names, *arguments))
        return arguments | from_path(operation, dict(zip(names, self._values, strict=True)))

    def _answer(self, result: Any, arguments: Mapping[str, Any], body: AnswerText) -> Answer:
        operation, exchange = self._endpoint.operation, self._exchange
        headers: Headers = [JSON]
        if self._endpoint.method == "GET":
            headers += self._next_page(arguments, result)
            if operation.version is not None:
                tag = b'"%d.%08x"' % (operation.version(result), zlib.crc32(body))
                headers.append((b"etag", tag))
                if _is_known(tag, exchange.headers.get(b"if-none-match", b"")):
                    return Answer(304, NOTHING, headers[1:])
            body, more = compressed(body, exchange.headers.get(b"accept-encoding", b""))
            headers += more
        return Answer(200, body, headers)

    def _next_page(self, arguments: Mapping[str, Any], result: Any) -> Headers:
        """The `Link` to the next page, if there is one."""
        scope = self._exchange.scope
        goes_on = cursor(self._endpoint.operation, arguments, result)
        if not goes_on:
            return []
        path = scope.get("raw_path") or scope["path"].encode()
        return [(b"link", link(path.decode("latin-1"), scope["query_string"], *goes_on))]


def _masked_pieces(context: Context, items: list[Any]) -> Iterator[AnswerText]:
    """The masked JSON of a list, which it empties; some items at a time, so that a step takes little time."""
    items.reverse()
    piece: list[bytes] = []
    size, opening = 0, b"["
    while items:
        piece.append(to_json(items.pop()))
        size += len(piece[-1])
        end_step()
        if size >= MASKED_BYTES or not items:
            inner = masked(context, b"[%b]" % b",".join(piece))[1:-1]
            yield unmasked(opening + inner, NeedsNoMasking.MASKED_BEFORE)
            piece, size, opening = [], 0, b","
    yield unmasked(b"]" if opening == b"," else b"[]", NeedsNoMasking.OWN_WORDS)


def _is_known(tag: bytes, known: bytes) -> bool:
    tags = [part.strip().removeprefix(b"W/") for part in known.split(b",")]
    return tag in tags or b"*" in tags


def _precondition(error: StaleHead) -> Refused:
    """What HTTP says when `If-Match` does not fit."""
    return Refused(412, error.code, str(error), **error.details)


def _expected(operation: Operation, headers: Mapping[bytes, bytes], arguments: dict[str, Any]) -> bool:
    """Take `If-Match` as the head that the caller has seen; whether it was there."""
    given, name = headers.get(b"if-match"), operation.if_match
    if not name or given is None or given.strip() == b"*":
        return False
    match = _ETAG.fullmatch(given.strip())
    if match is None:
        raise InvalidInput('If-Match has to be the ETag of the session, such as "12", or *')
    head = int(match[1])
    if arguments.get(name, head) != head:
        raise InvalidInput(f"If-Match says {head} and {name} says {arguments[name]}; send one of them")
    arguments[name] = head
    return True


def _replayed(replay: idempotency.Replay) -> Answer:
    kind = JSON if replay.status < 400 else (b"content-type", CONTENT_TYPE)
    text = unmasked(replay.body, NeedsNoMasking.MASKED_BEFORE)
    return Answer(replay.status, text, [kind, (b"idempotency-replayed", b"true")])
