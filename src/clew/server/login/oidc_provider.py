"""An OpenID provider over the network: its metadata, its keys, and the exchange of a code for tokens.

Its calls block, so they run in a thread. Metadata and keys are cached, and the cache is used longer while the provider
cannot be reached. Callers cannot make us ask at will: a token that names an unknown key makes us fetch the keys once,
and then not for some time.
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

METADATA_SECONDS = 3600.0
KEYS_SECONDS = 600.0
RETRY_SECONDS = 2.0
# Tokens with unknown keys make us fetch the keys at most this often.
RENEW_SECONDS = 10.0
TIMEOUT_SECONDS = 5.0
MOST_BYTES = 1024 * 1024

T = TypeVar("T")


class Unreachable(Exception):
    """The provider does not answer, or not like an OpenID provider; the text is for the operator."""


class ProviderMetadata(msgspec.Struct, frozen=True):
    """The part of a provider's discovery document that we use."""

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
    """The tokens that a provider gives for a code."""

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
        self._metadata = _Cached(self._fetch_metadata, METADATA_SECONDS)
        self._keys = _Cached(self._fetch_keys, KEYS_SECONDS)

    def metadata(self) -> ProviderMetadata:
        return self._metadata.get()

    def claims(self, token: str) -> Claims:
        """The claims of a token that the provider has signed."""
        header = header_of(token)
        keys = self._keys.get()
        if header.kid is not None and all(key.kid != header.kid for key in keys):
            keys = self._keys.renew()  # The token may be signed with a newer key than the cached ones.
        return signed_claims(token, keys, self.metadata().id_token_signing_alg_values_supported)

    def login_url(self, **parameters: str) -> str:
        """The address of the provider's login page."""
        metadata = self.metadata()
        scopes = ["openid", "profile", "email"]
        if self._oidc.team_claim in metadata.scopes_supported:
            scopes.append(self._oidc.team_claim)
        query = {"response_type": "code", "client_id": self._oidc.client_id, "scope": " ".join(scopes), **parameters}
        endpoint = metadata.authorization_endpoint
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query, quote_via=quote)}"

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
        status, body = _request("POST", metadata.token_endpoint, data=form, auth=basic)
        if status in (400, 401):
            raise Untrusted(f"the provider refuses the code ({_error_in(body)})")
        return _read(metadata.token_endpoint, status, body, Tokens)

    def userinfo(self, access_token: str) -> Claims:
        """The provider's claims about the holder of an access token; empty if it has no userinfo endpoint."""
        endpoint = self.metadata().userinfo_endpoint
        if not endpoint or not access_token:
            return {}
        status, body = _request("GET", endpoint, headers={"authorization": f"Bearer {access_token}"})
        return _read(endpoint, status, body, dict[str, Any])

    def _fetch_metadata(self) -> ProviderMetadata:
        url = f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = _read(url, *_request("GET", url), ProviderMetadata)
        if metadata.issuer != self._oidc.issuer:
            raise Unreachable(
                f"the provider at {self._oidc.issuer} calls itself {metadata.issuer[:200]!r}; name it exactly so, with "
                "--oidc-issuer"
            )
        for endpoint in (
            metadata.authorization_endpoint,
            metadata.token_endpoint,
            metadata.jwks_uri,
            metadata.userinfo_endpoint,
        ):
            if endpoint and not is_safe_url(endpoint):
                raise Unreachable(f"{url} names {endpoint[:200]!r}, which is not https; nothing is sent there")
        return metadata

    def _fetch_keys(self) -> KeySet:
        url = self.metadata().jwks_uri
        return key_set(_read(url, *_request("GET", url), _Keys).keys)


class _Cached(Generic[T]):
    """A value that one thread fetches again after a time, while the others use the cached one."""

    def __init__(self, fetch: Callable[[], T], seconds: float) -> None:
        self._fetch = fetch
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
        """Fetch the value now, unless that was done a moment ago."""
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
            loaded = self._fetch()
        except Unreachable as error:
            self._until = time.monotonic() + RETRY_SECONDS
            self._failure = str(error)
            if value is None:
                raise
            return value
        self._value, self._until = loaded, time.monotonic() + self._seconds
        return loaded


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """The trusted certificates, read once, because reading them takes longer than a request."""
    return httpx2.create_ssl_context()


def _request(
    method: str,
    url: str,
    *,
    data: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> tuple[int, bytes]:
    """The status and the body of a response. Redirects are not followed, because the request carries secrets."""
    body = bytearray()
    try:
        with (
            httpx2.Client(
                timeout=TIMEOUT_SECONDS, verify=_tls_context(), headers={"accept": "application/json"}
            ) as client,
            client.stream(method, url, data=data, headers=headers, auth=auth) as answer,
        ):
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise Unreachable(f"{_without_query(url)} answers with more than {MOST_BYTES:,} bytes")
            return answer.status_code, bytes(body)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unreachable(f"{_without_query(url)} cannot be reached: {type(error).__name__}") from None


def _read(url: str, status: int, body: bytes, kind: type[T]) -> T:
    if status != 200:
        raise Unreachable(f"{_without_query(url)} answers with the status {status}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
        raise Unreachable(f"{_without_query(url)} answers with an unexpected document: {reason[:200]}") from None


def _without_query(url: str) -> str:
    """An address without its query and its password, as it may stand in a log."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


# The error codes of RFC 6749; other text of a provider is not logged.
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
