"""The caller of a request: the holder of an API key or of a browser's cookie, or the owner on their own machine.

A browser sends its cookie with requests that pages of other sites make. So a request that changes something by cookie
has to come from a page of this server, which the browser says in `Origin`. The server on one's own machine takes the
secret of its person as a cookie or as a key, refuses pages of other sites by `Origin`, and names that they point at
this machine by `Host`.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from clew.model.credential import COOKIE
from clew.model.errors import Denied, Unauthenticated
from clew.server.options import Options
from clew.service.access.authenticator import BROWSER_DAYS, Authenticator
from clew.service.access.key_text import parse_token
from clew.service.kernel.context import Context

SAFE = frozenset({"GET", "HEAD"})
COOKIE_SECONDS = BROWSER_DAYS * 86_400
LONGEST_TOKEN = 16_384
# A name or an address in brackets, and a port; a name with anything else around it is another name to some program.
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")

Headers = Mapping[bytes, bytes]


class Credential(NamedTuple):
    """What a caller authenticates with; the text is secret."""

    how: str
    text: str = ""

    def __repr__(self) -> str:
        return f"<credential: {self.how}>"


OWNER = Credential("owner")


class Identity:
    """Finds the credential of a request, and authenticates its holder."""

    def __init__(
        self, authenticator: Authenticator, options: Options, bearer: Callable[[str], Context] | None = None
    ) -> None:
        """`bearer` authenticates tokens that are not keys of clew, such as those of an OpenID provider."""
        self.authenticator = authenticator
        self.options = options
        self.challenge = "Bearer"
        self._bearer = bearer
        self.cookie = _cookie_name(options)

    def credential(self, method: str, headers: Headers) -> Credential:
        """The credential of a request. A request without one is refused before its body is read."""
        authorization = headers.get(b"authorization")
        if authorization is not None:
            return self._from_header(authorization)
        text = self._from_cookie(headers.get(b"cookie", b""))
        if self.options.is_own:
            if not self.is_own_secret(text):
                raise Unauthenticated("this server knows its person's browser alone; open the link that it printed")
            self.check_origin(headers, method, needed=method not in SAFE)
            return OWNER
        if not text:
            raise Unauthenticated("no API key; send `Authorization: Bearer clew_...`, or log in with a browser")
        if method not in SAFE:
            self.check_origin(headers, method, needed=True)
        return Credential("cookie", text)

    def authenticate(self, credential: Credential) -> Context:
        """The context of the holder of a credential. It reads the store, so it runs in a thread."""
        if credential.how == "owner":
            return self.authenticator.owner_context()
        if credential.how == "cookie":
            # A key, a link or a provider's token is accepted in the header alone, and a browser's only as a cookie.
            return self.authenticator.authenticate(credential.text, COOKIE)
        return self.authenticate_bearer(credential.text)

    def authenticate_bearer(self, token: str) -> Context:
        """The context of the holder of a token: a key of clew, or a token of the OpenID provider."""
        if token.startswith("clew_") or self._bearer is None:
            return self.authenticator.authenticate(token)
        return self._bearer(token)

    def logged_in(self, headers: Headers) -> str:
        """The principal whose cookie a browser sends; empty without a login, or for one's own server."""
        text = self._from_cookie(headers.get(b"cookie", b""))
        if not text or self.options.is_own:
            return ""
        try:
            return self.authenticator.authenticate(text, COOKIE).principal
        except Unauthenticated:
            return ""

    def is_own_secret(self, text: str) -> bool:
        """Whether a text is the secret of the person whose own server this is."""
        secret = self.options.own_secret
        return bool(secret) and hmac.compare_digest(text.encode("utf-8", "replace"), secret.encode())

    def check_host(self, headers: Headers) -> None:
        """Refuse a host name that is not this server's, which a page may have pointed here (DNS rebinding)."""
        if not self.options.hosts:
            return
        host = _HOST.fullmatch(headers.get(b"host", b"").decode("latin-1"))
        if host is None or host[1].lower() not in self.options.hosts:
            raise Denied("this server does not answer to that name; use the address it printed when it started")

    def _from_header(self, authorization: bytes) -> Credential:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            raise Unauthenticated("expected `Authorization: Bearer` and an API key")
        if self.is_own_secret(token):
            return OWNER
        if token.startswith("clew_") or self._bearer is None:
            parse_token(token)  # Its checksum shows a typo without a look into the store.
        return Credential("key", token)

    def _from_cookie(self, cookies: bytes) -> str:
        for pair in cookies.decode("latin-1").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self.cookie:
                return value
        return ""

    def log_out(self, headers: Headers) -> None:
        """End the credential of the browser that sends its cookie, if it is valid."""
        text = self._from_cookie(headers.get(b"cookie", b""))
        with suppress(Unauthenticated):
            self.authenticator.log_out(text)

    def check_origin(self, headers: Headers, method: str, *, needed: bool = False) -> None:
        """Refuse a request that a browser makes for a page of another site; with `needed` it must name its page."""
        origin = headers.get(b"origin", b"").decode("latin-1")
        site = headers.get(b"sec-fetch-site", b"none")
        # A person may follow a link from any site; a POST from a form of another site is not a link.
        is_link = method in SAFE and headers.get(b"sec-fetch-mode") == b"navigate"
        is_cross_site = site in (b"cross-site", b"same-site") and not is_link
        if (origin and not self._is_own(origin, headers)) or is_cross_site or (needed and not origin):
            raise Denied("a page of another site cannot do this here; use an API key instead")

    def _is_own(self, origin: str, headers: Headers) -> bool:
        if self.options.public_url:
            return origin == _origin(self.options.public_url)
        return urlsplit(origin).netloc == headers.get(b"host", b"").decode("latin-1")

    def set_cookie(self, key: str) -> str:
        """The `Set-Cookie` header that gives a browser its key; an empty key removes the cookie."""
        age = COOKIE_SECONDS if key else 0
        secure = "; Secure" if self.options.is_secure else ""
        return f"{self.cookie}={key}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}"


def _cookie_name(options: Options) -> str:
    """The name of the cookie. Servers of one person on several ports share their cookies, so each has its own name."""
    if options.is_own:
        return f"clew-{hashlib.sha256(options.own_secret.encode()).hexdigest()[:12]}"
    return "__Host-clew" if options.is_secure else "clew"


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
