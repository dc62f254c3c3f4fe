"""Asking and acting: the page that says what an action will do, and what came of it.

A page is never left by an error of the person who filled it in: a refusal is shown in words where the action was
asked for, with everything that was filled in. An action that changes more with each call carries a number that its
form got when it was made, so a form that is sent twice acts once.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from clew.model.errors import ClewError, Conflict, InvalidInput, NotFound, Unauthenticated
from clew.model.ids import new_id
from clew.model.plain import plain
from clew.model.steps import end_step
from clew.server.http import idempotency
from clew.server.http.arguments import from_path, from_query
from clew.server.http.problems import OWN_FAULTS, STATUS, Refused
from clew.server.web.action import About, Action, Field, Kind, is_here, items_of
from clew.server.web.page_request import Done, Page, PageRequest
from clew.service.kernel.registry import Operation, operation_named
from clew.store import Store

TYPED, ONCE, BEFORE = "typed", "once", "before_"
YES = "yes"
MOST_ITEMS = 1000
# Faults that pass: the person tries again with what they filled in.
PASSING = ("busy", "unavailable")
SEE_OTHER = 303

Form = list[tuple[str, str]]


def ask(action: Action, request: PageRequest) -> Page:
    """The page that says what an action will do, and asks; values of fields can be given in the address."""
    _check_here(action, request)
    about = action.about(request)
    given = {
        field.name: request.query[field.name]
        for field in action.fields
        if request.query.get(field.name) and field.kind is not Kind.SECRET
    }
    return _asking(action, request, about, {**about.values, **given})


def act(
    action: Action, request: PageRequest, *, store: Store, run: Callable[[str, dict[str, Any]], Any]
) -> Page | Done:
    """Do it, and say where the browser goes; or the page that asks, with the reason of the refusal."""
    form = list(request.given)
    _check_here(action, request)
    about = action.about(request)
    values = {field.name: _text(field, form) for field in action.fields}
    operation = operation_named(action.operation)
    first = dict(reversed(form))
    try:
        arguments = _arguments(action, operation, request, form, values)
        _check(action, about, first, values)
        if action.each:
            return _each(action, request, about, lambda item: run(operation.name, {**arguments, action.each: item}))
        if operation.repeatable or not first.get(ONCE):
            return _done(action, request, about, run(operation.name, arguments))
        return _once(store, request, first[ONCE], form, lambda: _done(
            action, request, about, run(operation.name, arguments)))  # fmt: skip
    except (ClewError, Refused) as error:
        # What has no route is done on this machine; another server that it asked did not take our key there.
        if isinstance(error, Unauthenticated) and operation.route:
            raise
        status = error.status if isinstance(error, Refused) else STATUS.get(error.code, 500)
        if status >= 500 and error.code not in PASSING:
            raise
        is_own_fault = error.code in PASSING and bool(operation.route)
        told = OWN_FAULTS[error.code] if is_own_fault else _told(request, error)
        return _asking(action, request, action.about(request), values, told, status, typed=first.get(TYPED, ""))


def _done(action: Action, request: PageRequest, about: About, result: Any) -> Page | Done:
    if action.shows:
        shown = {"action": action, "about": about, "result": result, "address": request.address, "shows": action.shows}
        return Page("action/result.html", shown)
    return Done(action.next(request, result) if action.next else about.back, action.done, action.key)


def _each(action: Action, request: PageRequest, about: About, do: Callable[[str], Any]) -> Page | Done:
    """Do it to each; what was refused is shown with its reason, and the rest is done."""
    items = items_of(action, request)
    if not 0 < len(items) <= MOST_ITEMS:
        raise InvalidInput(f"{len(items):,} are chosen; choose 1 to {MOST_ITEMS:,}")
    refused = []
    for item in items:
        end_step()
        try:
            do(item)
        except Unauthenticated:
            raise
        except ClewError as error:
            if STATUS.get(error.code, 500) >= 500:
                raise
            refused.append((item, request.told(error)))
    if not refused:
        return Done(about.back, action.done, action.key)
    shown = {"action": action, "about": about, "refused": refused, "count": len(items), "shows": "action/some.html"}
    return Page("action/result.html", shown)


def _asking(
    action: Action, request: PageRequest, about: About, values: Mapping[str, str], problem: str = "", status: int = 200,
    *, typed: str = "",
) -> Page:  # fmt: skip
    secret = {field.name for field in action.fields if field.kind is Kind.SECRET}
    return Page(
        "action/page.html",
        {
            "action": action, "about": about, "problem": problem, "typed": typed,
            "values": {name: value for name, value in values.items() if name not in secret},
            "address": action.address(request.path), "once": new_id(), "kinds": Kind,
            "items": items_of(action, request),
            "choices": {field.name: about.choices.get(field.name, field.choices) for field in action.fields},
        },
        status,
    )  # fmt: skip


# What a form says -----------------------------------------------------------------------------------------------------


def _arguments(
    action: Action, operation: Operation, request: PageRequest, form: Form, values: Mapping[str, str]
) -> dict[str, Any]:
    known = {*values, action.each, *(BEFORE + name for name in values), TYPED, ONCE}
    if unknown := {name for name, _ in form} - known:
        raise InvalidInput(f"this form has no field {', '.join(sorted(name[:40] for name in unknown)[:5])}")
    pairs = [
        (field.name, item)
        for field in action.fields
        for item in _items(field, values[field.name])
    ]  # fmt: skip
    arguments = from_query(operation, urlencode(pairs).encode())
    return arguments | dict(action.fixed) | from_path(operation, request.path)


def _text(field: Field, form: Form) -> str:
    return next((text for name, text in form if name == field.name), "").replace("\r\n", "\n")


def _items(field: Field, text: str) -> list[str]:
    if field.kind is Kind.LIST:
        return text.replace(",", " ").split()
    if field.kind is Kind.YES:
        return ["true"] if text == YES else []
    return [text] if text.strip() or field.needed else []


def _check(action: Action, about: About, first: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Refuse what is not possible now, what was not confirmed, and a value that somebody else changed meanwhile."""
    if about.refusal:
        raise Conflict(about.refusal)
    for field in action.fields:
        before = first.get(BEFORE + field.name)
        now = _as_shown(about.values.get(field.name, ""))
        if before is not None and now not in (_as_shown(before), _as_shown(values[field.name])):
            raise Conflict(
                f"somebody changed it while you looked at it: {field.label} is now {now[:200]!r}; if you send this "
                "again, yours replaces it"
            )
        if field.name in about.changes_of and _as_shown(before or "") != _as_shown(values[field.name]):
            raise Conflict("nothing was done yet: with these values it would change what is shown now; send this again")
    if about.typed and " ".join(first.get(TYPED, "").split()) != about.typed:
        raise InvalidInput(f"nothing was done: type {about.typed} to confirm it")


def _as_shown(text: str) -> str:
    """A text as it comes back from a form: no browser sends control characters and blanks as they are stored."""
    return " ".join(plain(text).split())


def _check_here(action: Action, request: PageRequest) -> None:
    if not is_here(action, request):
        other = "a server for a team" if request.is_own else "the server on one's own machine"
        raise NotFound(f"{action.name} is there on {other} alone", missing="action")


def _told(request: PageRequest, error: ClewError | Refused) -> str:
    return str(error) if isinstance(error, Refused) else request.told(error)


# Once -----------------------------------------------------------------------------------------------------------------


def _once(store: Store, request: PageRequest, once: str, form: Form, do: Callable[[], Page | Done]) -> Page | Done:
    """Do it unless a form with this number did it; then only go where that one went."""
    said = hashlib.sha256(repr((sorted(request.path.items()), form)).encode("utf-8", "replace")).digest()
    # What was corrected after a refusal, or after a step back in the browser, is another request.
    key = idempotency.check_key(f"page:{once[:100]}:{said.hex()[:32]}")
    try:
        claim = idempotency.claim(store, request.principal, key, said)
    except idempotency.StillRunning:
        raise Conflict("this form was sent a moment ago and is being carried out; look at the page again") from None
    if isinstance(claim, idempotency.Replay):
        next, _, words = claim.body.decode().partition("\n")
        if not next:
            raise Conflict("this form was sent before, and what it made was shown once; look at the page again")
        return Done(next, *words.split("\n"))
    try:
        made = do()
    except (ClewError, Refused):
        idempotency.release(store, claim)
        raise
    body = "\n".join(made) if isinstance(made, Done) else ""
    idempotency.finish(store, claim, SEE_OTHER, body.encode())
    return made
