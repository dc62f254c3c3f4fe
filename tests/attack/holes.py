"""Holes: each replaces one function of the running server by one that forgets what it is for. A campaign finds them."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from clew.model.access import Caller, Ruling
from clew.model.credential import Kind, Limits
from clew.server.http import idempotency, middleware
from clew.server.login.identity import Identity
from clew.service.access import api_keys, authenticator, credentials, grants, holdings
from clew.service.access.key_text import Token
from clew.service.find import search
from clew.service.kernel import effects
from clew.service.replication import receiving
from clew.service.sessions import events
from clew.store import Store


def sessions_are_looked_up_without_reach() -> None:
    find = Store.session
    Store.session = lambda self, prefix, reach=None: find(self, prefix)  # type: ignore[method-assign]


def every_right_is_granted() -> None:
    Caller.rule = lambda self, right, target: Ruling(True, "a hole")  # type: ignore[method-assign]


def lists_are_not_narrowed() -> None:
    Caller.reach = lambda self, right: None  # type: ignore[method-assign]


def secrets_of_keys_are_not_compared() -> None:
    Token.matches = lambda self, hash: True  # type: ignore[method-assign]


def ended_credentials_stay_good() -> None:
    limits_of = authenticator.limits_of
    authenticator.limits_of = lambda chain, now: limits_of(  # type: ignore[attr-defined]
        [msgspec.structs.replace(link, until=0, disabled=False) for link in chain], now
    )


def scopes_of_keys_are_ignored() -> None:
    limits_of = authenticator.limits_of

    def whole(chain: Any, now: int) -> Limits | None:
        limits = limits_of(chain, now)
        return None if limits is None else Limits(scopes=None, project="", until=limits.until)

    authenticator.limits_of = whole  # type: ignore[attr-defined]


def cookies_and_keys_are_one() -> None:
    authenticate = authenticator.Authenticator.authenticate
    authenticator.Authenticator.authenticate = (  # type: ignore[method-assign]
        lambda self, secret, kinds=None: authenticate(self, secret, frozenset(Kind))
    )


def logins_are_good_twice() -> None:
    authenticator.redeem_login = lambda store, id: True  # type: ignore[attr-defined]
    limits_of = authenticator.limits_of
    authenticator.limits_of = lambda chain, now: limits_of(  # type: ignore[attr-defined]
        [msgspec.structs.replace(link, until=0) if link.kind == Kind.LOGIN else link for link in chain], now
    )


def narrowed_keys_make_keys() -> None:
    for module in (api_keys, grants, holdings, credentials):
        module.permit_making = lambda *_: None  # type: ignore[attr-defined]


def rights_are_remembered() -> None:
    make = authenticator.Authenticator.__init__

    def remembering(self: Any, *words: Any, **options: Any) -> None:
        make(self, *words, **{**options, "fresh_seconds": 3600.0})

    authenticator.Authenticator.__init__ = remembering  # type: ignore[method-assign]


def other_sites_may_post() -> None:
    Identity.check_origin = lambda self, headers, method, needed=False: None  # type: ignore[method-assign]


def the_host_is_not_checked() -> None:
    Identity.check_host = lambda self, headers: None  # type: ignore[method-assign]


def headers_may_come_twice() -> None:
    middleware._check_repeated = lambda headers: None


def answers_are_not_masked() -> None:
    from clew.secrets.masking import Masker

    Masker.mask = lambda self, text: (text, Counter())  # type: ignore[method-assign]


def a_search_finds_what_is_masked() -> None:
    search.may_see_secrets = lambda *_: True  # type: ignore[attr-defined]


def events_of_others_change_rules() -> None:
    receiving.effects_filter = (  # type: ignore[attr-defined]
        lambda context, session: lambda body: Ruling(True, "a hole")
    )


def a_digest_is_enough_for_an_object() -> None:
    events.permit_objects = lambda context, session, bodies: None  # type: ignore[attr-defined]


def forks_forget_what_they_show() -> None:
    effects._ancestors = lambda context, session: []


def answers_are_replayed_to_anybody() -> None:
    claim, digest = idempotency.claim, idempotency.digest
    idempotency.claim = lambda store, principal, key, request: claim(store, "", key, request)
    idempotency.digest = lambda method, path, query, body, rights="": digest(method, path, query, body)


HOLES: dict[str, Callable[[], None]] = {
    hole.__name__.replace("_", " "): hole
    for hole in (
        sessions_are_looked_up_without_reach, every_right_is_granted, lists_are_not_narrowed,
        secrets_of_keys_are_not_compared, ended_credentials_stay_good, scopes_of_keys_are_ignored,
        cookies_and_keys_are_one, logins_are_good_twice, narrowed_keys_make_keys, rights_are_remembered,
        other_sites_may_post, the_host_is_not_checked, headers_may_come_twice, answers_are_not_masked,
        a_search_finds_what_is_masked, events_of_others_change_rules, a_digest_is_enough_for_an_object,
        forks_forget_what_they_show, answers_are_replayed_to_anybody,
    )
}  # fmt: skip
