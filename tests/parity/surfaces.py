"""The surfaces, each as one function: a question in, the answer or the refusal out, as JSON."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import msgspec

from clew.model import codec
from clew.model.errors import ClewError
from clew.service import Context, call
from clew.service.answers import to_json
from clew.service.registry import load
from isolation.tenants import Question


class Answer(NamedTuple):
    """What came back: the code of a refusal or nothing, and the text."""

    code: str
    text: str


def refused(error: ClewError) -> Answer:
    return Answer(error.code, codec.to_json({"message": str(error), **error.details}))


def over_python(enter: Callable[[], Context], question: Question) -> Answer:
    try:
        return Answer("", to_json(call(enter(), question.operation, question.arguments)).decode())
    except ClewError as error:
        return refused(error)


def over_http(client: httpx2.Client, question: Question) -> Answer:
    """The question as a request of its operation's route."""
    method, _, path = load()[question.operation].route.partition(" ")
    rest = dict(question.arguments)
    for name in re.findall(r"\{(\w+)\}", path):
        path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
    if method in ("GET", "DELETE"):
        answer = client.request(method, f"/v1{path}", params={name: _plain(value) for name, value in rest.items()})
    else:
        answer = client.request(method, f"/v1{path}", json=rest)
    if answer.status_code < 300:
        return Answer("", answer.text or "null")
    told = msgspec.json.decode(answer.content, type=dict[str, Any])
    details = {name: value for name, value in told.items() if name not in PROBLEM}
    return Answer(told["code"], codec.to_json({"message": told["detail"], **details}))


PROBLEM = ("type", "title", "status", "detail", "code", "instance", "request")


def _plain(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


_VOLATILE = (
    # Ids, whole or as they are shortened in the questions.
    (re.compile(r"\b(?=[0-9a-z]*[0-9])([0-9a-z]{20}|[0-9a-z]{9})\b"), "id"),
    (re.compile(r'"(at|until|used_at|opened_at|last_at|began_at|lease_until|exported_at|position)":\d+'), r'"\1":0'),
    (re.compile(r"clew_(person|agent|service|link)_\w+"), "token"),
    (re.compile(r"\b[0-9A-Za-z]{12}\b"), "key"),
    (re.compile(r"[0-9a-f]{64}"), "digest"),
    (re.compile(r"[A-Za-z0-9+/]{60,}={0,2}"), "bytes"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.Z+:]*"), "time"),
    (re.compile(r"for another [\d.]+ s"), "for another moment"),
)


def comparable(answer: Answer) -> Answer:
    """An answer without what differs from one run of the same questions to the next."""
    text = answer.text
    for pattern, instead in _VOLATILE:
        text = pattern.sub(instead, text)
    return Answer(answer.code, text)
