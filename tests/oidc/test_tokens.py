"""Programs come with access tokens: of the provider, for this server, for no more than their scopes."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey

from clew.model.access import ROLES
from clew.model.errors import Unauthenticated
from clew.server.login.oauth_resource import Resource
from clew.server.login.oidc_provider import Provider as Asked
from clew.store.access.principals import disable_principal
from oidc.conftest import URL, Site, trusted
from support.provider import ADA, CLIENT, FIRST, Provider, confused, unsigned

USUAL = "clew:see clew:read clew:append clew:fork"
NOW = int(time.time())
FOREIGN = ECKey.generate_key("P-256", {"kid": "first", "alg": "ES256"})
UNKNOWN = ECKey.generate_key("P-256", {"kid": "unknown", "alg": "ES256"})


@pytest.fixture
def known(site: Site, provider: Provider) -> Site:
    """A server on which Ada may read and write."""
    site.add("person:ada", issuer=provider.issuer, subject=ADA["sub"], rights=ROLES["writer"])
    return site


def asked(site: Site, token: str, path: str = "/v1/me") -> httpx2.Response:
    with site.program(token) as program:
        return program.get(path)


@pytest.mark.parametrize("audience", [URL, f"{URL}/mcp", ["https://api.example", URL]])
def test_a_token_for_this_server_opens_it(known: Site, provider: Provider, audience: str | list[str]) -> None:
    me = asked(known, provider.access_token(audience, f"openid {USUAL} clew:unheard-of")).json()
    assert me["principal"] == "person:ada"
    assert me["scopes"] == ["append", "fork", "read", "see"]


def test_scopes_only_ever_narrow(known: Site, provider: Provider) -> None:
    with known.program(provider.access_token(URL, "clew:see clew:administer")) as program:
        assert program.get("/v1/sessions").status_code == 200
        denied = program.post("/v1/sessions", json={"project": "clew"})
        assert (denied.status_code, denied.json()["code"]) == (403, "denied")
        assert program.get("/v1/principals").status_code == 403, "a scope gives no right that was not granted"
    with known.program(provider.access_token(URL, None, scp=["clew:see", "clew:append"])) as program:  # type: ignore[arg-type]
        assert program.post("/v1/sessions", json={"project": "clew"}).status_code == 200


@pytest.mark.parametrize("scope", ["", "openid profile", "clew", "see", "xclew:see"])
def test_a_token_without_our_scopes_is_sent_back_for_them(known: Site, provider: Provider, scope: str) -> None:
    refused = asked(known, provider.access_token(URL, scope))
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert refused.headers["www-authenticate"] == (
        f'Bearer error="insufficient_scope", resource_metadata="{URL}/.well-known/oauth-protected-resource", '
        f'scope="{USUAL}"'
    )


def claims(provider: Provider, **others: Any) -> dict[str, Any]:
    soon = int(time.time()) + 300
    return {"iss": provider.issuer, "sub": ADA["sub"], "aud": URL, "exp": soon, "scope": USUAL, **others}


@pytest.mark.parametrize(
    "make",
    [
        lambda p: p.access_token("https://api.example", USUAL),
        lambda p: p.access_token(CLIENT, USUAL),
        lambda p: p.access_token(f"{URL}/", USUAL),
        lambda p: p.access_token(None, USUAL),
        lambda p: p.access_token(URL, USUAL, iss="https://login.example"),
        lambda p: p.access_token(URL, USUAL, exp=NOW - 120),
        lambda p: p.access_token(URL, USUAL, exp=None),
        lambda p: p.access_token(URL, USUAL, nbf=NOW + 3600),
        lambda p: p.access_token(URL, USUAL, sub=None),
        lambda p: p.access_token(URL, USUAL, sub="nobody"),
        lambda p: p.access_token(URL, USUAL, cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
        lambda p: p.sign(claims(p), typ="logout+jwt"),
        lambda p: p.sign(claims(p), FOREIGN),
        lambda p: p.sign(claims(p), UNKNOWN),
        lambda p: unsigned(claims(p)),
        lambda p: confused(claims(p), FIRST),
        lambda p: "opaque",
        lambda p: "clew_person_0123456789ab",
    ],
    ids=[
        "for another", "an id token", "trailing slash", "for nobody", "of another", "expired", "for ever", "not yet",
        "of no one", "of a stranger", "bound", "of another type", "another key", "unknown key", "none",
        "public key as a secret", "opaque", "half a key",
    ],
)  # fmt: skip
def test_any_other_token_is_refused(known: Site, provider: Provider, make: Callable[[Provider], str]) -> None:
    token = make(provider)
    refused = asked(known, token)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    assert refused.headers["www-authenticate"] == (
        f'Bearer error="invalid_token", resource_metadata="{URL}/.well-known/oauth-protected-resource", scope="{USUAL}"'
    )
    assert token not in refused.text + known.log.getvalue()


def test_a_principal_that_was_shut_out_is_refused(known: Site, provider: Provider) -> None:
    known.add("service:ci", issuer=provider.issuer, subject="ci")
    token = provider.access_token(URL, USUAL, sub="ci")
    assert asked(known, token).json()["principal"] == "service:ci"
    disable_principal(known.authenticator.store, "service:ci")
    until = time.monotonic() + 20
    while asked(known, token).status_code != 401:
        assert time.monotonic() < until, "a token of theirs is still good"


def test_a_token_counts_in_the_header_alone(known: Site, provider: Provider) -> None:
    token = provider.access_token(URL, USUAL)
    with known.program() as program:
        assert program.get("/v1/me", params={"access_token": token}).status_code == 401
        assert program.get("/v1/me", headers={"cookie": f"__Host-clew={token}"}).status_code == 401
        assert program.get("/v1/me", headers={"authorization": f"Basic {token}"}).status_code == 401
        told = program.post("/login", json={"token": token}, headers={"origin": URL})
        assert (told.status_code, "set-cookie" in told.headers) == (401, False)


def test_clocks_may_be_a_minute_apart(known: Site, provider: Provider) -> None:
    assert asked(known, provider.access_token(URL, USUAL, exp=int(time.time()) - 30)).status_code == 200
    assert asked(known, provider.access_token(URL, USUAL, nbf=int(time.time()) + 60)).status_code == 200


def test_what_is_known_of_the_provider_serves_on_while_it_is_away(tmp_path: Path) -> None:
    with Provider(f"{URL}/login/callback") as provider, Site(tmp_path, trusted(provider)) as site:
        site.add("person:ada", issuer=provider.issuer, subject=ADA["sub"])
        assert asked(site, provider.access_token(URL, USUAL)).status_code == 200
        provider.stop()
        assert asked(site, provider.sign(claims(provider), UNKNOWN)).status_code == 401
        assert asked(site, provider.access_token(URL, USUAL, jti="another")).status_code == 200


def test_clients_learn_where_tokens_come_from(known: Site, provider: Provider) -> None:
    for path in ("", "/mcp"):
        place = f"/.well-known/oauth-protected-resource{path}"
        assert asked(known, "", place).json() == {
            "resource": f"{URL}{path}",
            "authorization_servers": [provider.issuer],
            "scopes_supported": [
                "clew:see", "clew:read", "clew:append", "clew:fork", "clew:hand_off", "clew:export", "clew:administer",
                "clew:audit", "clew:budget", "clew:hold",
            ],
            "bearer_methods_supported": ["header"],
            "resource_name": "clew",
        }  # fmt: skip
        refused = asked(known, "", path or "/v1/sessions")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{URL}{place}", scope="{USUAL}"'


def test_an_agent_uses_mcp_with_a_token(known: Site, provider: Provider) -> None:
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}
        },
    }  # fmt: skip
    headers = {"accept": "application/json, text/event-stream"}
    with known.program(provider.access_token(f"{URL}/mcp", USUAL)) as program:
        told = program.post("/mcp", json=hello, headers=headers)
    assert told.json()["result"]["serverInfo"]["name"] == "clew"


def test_without_a_provider_keys_work_and_nothing_is_promised(tmp_path: Path) -> None:
    with Site(tmp_path, None) as site:
        site.add("person:ada")
        assert asked(site, site.key("person:ada")).json()["principal"] == "person:ada"
        assert asked(site, "", "/v1/me").headers["www-authenticate"] == "Bearer"
        assert asked(site, "", "/.well-known/oauth-protected-resource").status_code == 404
        assert asked(site, "", "/.well-known/oauth-protected-resource/mcp").status_code == 404
        assert asked(site, "", "/login/start").status_code == 404
        assert "/login/start" not in asked(site, "", "/login").text


def test_no_text_is_taken_for_a_token_by_mistake(known: Site, provider: Provider) -> None:
    honest = provider.access_token(URL, USUAL)
    header, body, signature = honest.split(".")
    parts = st.sampled_from([header, body, signature, "", "e30", "bnVsbA", "W10", "eyJhbGciOiJSUzI1NiJ9"]) | st.text()
    oidc = trusted(provider)
    resource = Resource(known.authenticator, oidc, Asked(oidc), url=URL, report=lambda error: pytest.fail(str(error)))

    @given(st.lists(parts, max_size=5).map(".".join).filter(lambda text: text != honest))
    def refused(text: str) -> None:
        with pytest.raises(Unauthenticated):
            resource.authenticate_bearer(text)

    refused()
    assert resource.authenticate_bearer(honest).principal == "person:ada"


def test_many_at_once_ask_the_provider_once(sites: Callable[..., Site], provider: Provider) -> None:
    site = sites()
    site.add("person:ada", issuer=provider.issuer, subject=ADA["sub"])
    oidc = trusted(provider)
    resource = Resource(site.authenticator, oidc, Asked(oidc), url=URL, report=lambda error: None)
    tokens = [provider.access_token(URL, USUAL, jti=str(number)) for number in range(8)]
    gate = threading.Barrier(len(tokens))
    found: list[str] = []

    def enter(token: str) -> None:
        gate.wait()
        found.append(resource.authenticate_bearer(token).principal)

    threads = [threading.Thread(target=enter, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["person:ada"] * len(tokens)
    assert sorted(provider.asked) == ["about", "keys"]
