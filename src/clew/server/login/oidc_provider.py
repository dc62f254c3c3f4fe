"""An OpenID provider over the network: what it says about itself, its keys, and what it gives for a code.

Whoever asks waits, so this runs in a thread. What the provider says is kept for a while, and what is kept serves on
while the provider cannot be reached. Nobody can make us ask it at will: a token that names an unknown key is a reason
to ask once, and then not for some time.
"""

import functools
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import msgspec
from joserfc.jwk import KeySet

from clew.server.login.oidc_tokens import Claims, Untrusted, header_of, key_set, signed_claims
from clew.server.options import Oidc, is_safe_url

ABOUT_SECONDS = 3600.0
KEYS_SECONDS = 600.0
RETRY_SECONDS = 2.0
# How often tokens with unknown keys are a reason to ask for the keys again.
RENEW_SECONDS = 10.0
TIMEOUT_SECONDS = 5.0
MOST_BYTES = 1024 * 1024

T = TypeVar("T")


class Unreachable(Exception):
    """The provider does not answer, or not as one; the text says what an operator has to know."""


class ProviderMetadata(msgspec.Struct, frozen=True):
    """What a provider says about itself, as far as it matters here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    id_token_signing_alg_values_supported: tuple[str, ...] = ("RS256",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    scopes_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """What a provider gives for a code."""

    id_token: str
    access_token: str = ""

    def __repr__(self) -> str:
        return "<tokens>"


class _Keys(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class Provider:
    """The provider of a server."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._metadata = _Cached(self._fetch_metadata, ABOUT_SECONDS)
        self._keys = _Cached(self._fetch_keys, KEYS_SECONDS)

    def metadata(self) -> ProviderMetadata:
        return self._metadata.get()

    def claims(self, token: str) -> Claims:
        """What a token says, if the provider has signed it."""
        header = header_of(token)
        keys = self._keys.get()
        if header.kid is not None and all(key.kid != header.kid for key in keys):
            keys = self._keys.renew()  # It may have been signed with a key that is newer than what we know.
        return signed_claims(token, keys, self.metadata().id_token_signing_alg_values_supported)

    def login_url(self, **parameters: str) -> str:
        """Where a browser goes to log in."""
        metadata = self.metadata()
        scopes = ["openid", "profile", "email"]
        if self._oidc.team_claim in metadata.scopes_supported:
            scopes.append(self._oidc.team_claim)
        query = {"response_type": "code", "client_id": self._oidc.client_id, "scope": " ".join(scopes), **parameters}
        place = metadata.authorization_endpoint
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(query, quote_via=quote)}"

    def redeem(self, code: str, *, verifier: str, redirect_uri: str) -> Tokens:
        """The tokens for a code."""
        metadata, secret = self.metadata(), self._oidc.client_secret
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        methods = metadata.token_endpoint_auth_methods_supported
        basic = None
        if secret and ("client_secret_basic" in methods or "client_secret_post" not in methods):
            basic = (quote(self._oidc.client_id, safe=""), quote(secret, safe=""))
        else:
            form["client_id"] = self._oidc.client_id
            if secret:
                form["client_secret"] = secret
        status, body = _ask("POST", metadata.token_endpoint, data=form, auth=basic)
        if status in (400, 401):
            raise Untrusted(f"the provider gives nothing for the code ({_error_in(body)})")
        return _read(metadata.token_endpoint, status, body, Tokens)

    def userinfo(self, access_token: str) -> Claims:
        """What the provider says about whoever an access token stands for; nothing when it has no place to ask."""
        place = self.metadata().userinfo_endpoint
        if not place or not access_token:
            return {}
        status, body = _ask("GET", place, headers={"authorization": f"Bearer {access_token}"})
        return _read(place, status, body, dict[str, Any])

    def _fetch_metadata(self) -> ProviderMetadata:
        place = f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = _read(place, *_ask("GET", place), ProviderMetadata)
        if metadata.issuer != self._oidc.issuer:
            raise Unreachable(
                f"the provider at {self._oidc.issuer} calls itself {metadata.issuer[:200]!r}; name it exactly so, with "
                "--oidc-issuer"
            )
        for url in (
            metadata.authorization_endpoint,
            metadata.token_endpoint,
            metadata.jwks_uri,
            metadata.userinfo_endpoint,
        ):
            if url and not is_safe_url(url):
                raise Unreachable(f"{place} names {url[:200]!r}, which is not https; nothing is sent there")
        return metadata

    def _fetch_keys(self) -> KeySet:
        place = self.metadata().jwks_uri
        return key_set(_read(place, *_ask("GET", place), _Keys).keys)


class _Cached(Generic[T]):
    """What somebody else said, asked for again after a time by one thread, while the others use what is known."""

    def __init__(self, ask: Callable[[], T], seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._value: T | None = None
        self._until = 0.0
        self._failure = ""
        self._renewable = 0.0

    def get(self) -> T:
        value = self._value
        if value is not None and (time.monotonic() < self._until or self._lock.locked()):
            return value
        with self._lock:
            value = self._value
            return value if value is not None and time.monotonic() < self._until else self._load()

    def renew(self) -> T:
        """Ask now, unless that was done a moment ago."""
        with self._lock:
            value = self._value
            if value is not None and time.monotonic() < self._renewable:
                return value
            self._renewable = time.monotonic() + RENEW_SECONDS
            return self._load()

    def _load(self) -> T:
        value = self._value
        if value is None and time.monotonic() < self._until:
            raise Unreachable(self._failure)
        try:
            loaded = self._ask()
        except Unreachable as error:
            self._until = time.monotonic() + RETRY_SECONDS
            self._failure = str(error)
            if value is None:
                raise
            return value
        self._value, self._until = loaded, time.monotonic() + self._seconds
        return loaded


@functools.cache
def _trust() -> ssl.SSLContext:
    """Whose certificates count; made once, because reading them takes longer than asking."""
    return httpx2.create_ssl_context()


def _ask(
    method: str,
    url: str,
    *,
    data: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> tuple[int, bytes]:
    """The status and the body of an answer; a redirect is not followed, because secrets go with the question."""
    body = bytearray()
    try:
        with (
            httpx2.Client(timeout=TIMEOUT_SECONDS, verify=_trust(), headers={"accept": "application/json"}) as client,
            client.stream(method, url, data=data, headers=headers, auth=auth) as answer,
        ):
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise Unreachable(f"{_place(url)} answers with more than {MOST_BYTES:,} bytes")
            return answer.status_code, bytes(body)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unreachable(f"{_place(url)} cannot be reached: {type(error).__name__}") from None


def _read(url: str, status: int, body: bytes, kind: type[T]) -> T:
    if status != 200:
        raise Unreachable(f"{_place(url)} answers with the status {status}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "no JSON"
        raise Unreachable(f"{_place(url)} answers with something else than expected: {reason[:200]}") from None


def _place(url: str) -> str:
    """An address without a query, which may hold anything."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


# The words of RFC 6749; any other is not repeated.
ERRORS = frozenset(
    "access_denied consent_required interaction_required invalid_client invalid_grant invalid_request invalid_scope "
    "login_required server_error temporarily_unavailable unauthorized_client unsupported_grant_type "
    "unsupported_response_type".split()
)


def known_error(word: object) -> str:
    return word if isinstance(word, str) and word in ERRORS else "an error without a known name"


def _error_in(body: bytes) -> str:
    try:
        return known_error(msgspec.json.decode(body, type=dict[str, Any]).get("error"))
    except (msgspec.DecodeError, RecursionError):
        return known_error("")
