"""A real OpenID provider on the loopback address: discovery, authorize, token, keys, userinfo.

It is strict where a good one is: clients have a secret, redirects are registered, codes are good once and bound to
their PKCE challenge. Whoever comes to its login is `person`, at once. What it says about them, and with what it signs,
a test can change.
"""

import base64
import hashlib
import hmac
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "clew", "100%25 secret: +"
ADA = {
    "sub": "248289761001",
    "preferred_username": "ada",
    "name": "Ada Lovelace",
    "email": "ada@team.example",
    "email_verified": True,
}
# Made once: an RSA key takes a quarter of a second.
FIRST = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})


class Provider:
    """Serves in a thread, from the start of the `with` block to its end."""

    def __init__(self, redirect_uri: str) -> None:
        self._redirect_uri = redirect_uri
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.issuer = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.reset()

    def reset(self) -> None:
        """An honest provider, with one key."""
        self.person: dict[str, Any] = dict(ADA)
        self.keys: list[Any] = [FIRST]
        self.ahead = 0.0
        """How far its clock is ahead, in seconds."""
        self.about: dict[str, Any] = {}
        """What its description says otherwise."""
        self.change_claims: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self.change_answer: Callable[[dict[str, str]], dict[str, str]] = dict
        self.id_token: Callable[[dict[str, Any]], str] = self.sign
        self.userinfo: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    # Tokens -----------------------------------------------------------------------------------------------------------

    def sign(self, claims: Mapping[str, Any], key: Any = None, **header: Any) -> str:
        """A token, by default signed with the newest key."""
        key = key or self.keys[-1]
        found = {"alg": key.get("alg"), "kid": key.kid, **header}
        return jwt.encode(found, dict(claims), key, algorithms=[found["alg"]])

    def access_token(self, audience: str | list[str], scope: str, **claims: Any) -> str:
        """A token for a resource server; a claim that is None is left out."""
        now = int(time.time() + self.ahead)
        made = {"iss": self.issuer, "sub": ADA["sub"], "aud": audience, "exp": now + 300, "iat": now, "scope": scope}
        return self.sign({name: value for name, value in {**made, **claims}.items() if value is not None})

    def rotate(self) -> None:
        """Sign with a new key from now on; the old one is published no more."""
        self.keys = [ECKey.generate_key("P-256", {"kid": secrets.token_hex(4), "use": "sig", "alg": "ES256"})]

    # Routes -----------------------------------------------------------------------------------------------------------

    async def _about(self, request: Request) -> Response:
        self.asked.append("about")
        told = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=one",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "scopes_supported": ["openid", "profile", "email", "groups"],
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse({**told, **self.about})

    async def _authorize(self, request: Request) -> Response:
        self.asked.append("authorize")
        asked = dict(request.query_params)
        is_right = (
            asked.get("client_id") == CLIENT
            and asked.get("redirect_uri") == self._redirect_uri
            and asked.get("response_type") == "code"
            and asked.get("code_challenge_method") == "S256"
            and len(asked.get("code_challenge", "")) == 43
            and "openid" in asked.get("scope", "").split()
        )
        if not is_right:
            return Response("not a request of a client of mine", 400)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = self.change_answer({"code": code, "state": asked["state"], "iss": self.issuer})
        return RedirectResponse(f"{self._redirect_uri}?{urlencode(answer)}", 303)

    async def _token(self, request: Request) -> Response:
        self.asked.append("token")
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        words = base64.b64decode(given).decode().partition(":")[::2]
        if scheme != "Basic" or tuple(map(unquote, words)) != (CLIENT, SECRET):
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self.codes.pop(form.get("code", ""), None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if (
            asked is None
            or challenge != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
            or form.get("grant_type") != "authorization_code"
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time() + self.ahead)
        claims = {
            "iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.person
        }  # fmt: skip
        id_token = self.id_token(self.change_claims(claims))
        return JSONResponse({"id_token": id_token, "access_token": "opaque", "token_type": "Bearer", "expires_in": 300})

    async def _keys(self, request: Request) -> Response:
        self.asked.append("keys")
        return JSONResponse({"keys": [key.as_dict(private=False) for key in self.keys] + [{"kty": "unheard-of"}]})

    async def _userinfo(self, request: Request) -> Response:
        self.asked.append("userinfo")
        if request.headers.get("authorization") != "Bearer opaque":
            return Response(status_code=401)
        return JSONResponse(self.userinfo)

    # Life -------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        routes = [
            Route("/.well-known/openid-configuration", self._about),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/keys", self._keys),
            Route("/userinfo", self._userinfo),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="provider")
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


def unsigned(claims: Mapping[str, Any]) -> str:
    """A token that says itself that nobody signed it."""
    return f"{_part({'alg': 'none', 'kid': 'first'})}.{_part(claims)}."


def confused(claims: Mapping[str, Any], key: Any) -> str:
    """A token with one key for both ends, which is the public one of somebody else."""
    signing = f"{_part({'alg': 'HS256', 'kid': key.kid})}.{_part(claims)}"
    digest = hmac.digest(key.as_pem(private=False), signing.encode(), "sha256")
    return f"{signing}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _part(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
