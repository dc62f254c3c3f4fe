"""People log in with a provider; nobody comes in by an answer that is not for them, here and now."""

import base64
import hashlib
import html
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import ECKey, RSAKey

from clew.server.login.oidc import LoginAttempt
from clew.server.login.oidc_options import warning
from clew.store.access.credentials import list_credentials
from clew.store.access.principals import disable_principal, find_principal
from clew.store.projects import control_log
from oidc.conftest import URL, Site, trusted
from support.provider import ADA, FIRST, SECRET, Provider, confused, unsigned

BOB = {"sub": "bob-1", "preferred_username": "bob", "email": "bob@elsewhere.example", "email_verified": True}


def is_in(browser: httpx2.Client) -> bool:
    return browser.get("/v1/me").status_code == 200


def log_in(browser: httpx2.Client) -> httpx2.Response:
    return browser.get("/login/start")


def begun(browser: httpx2.Client) -> str:
    """Begin a login and go to the provider; the address it sends the browser back to."""
    there = browser.get("/login/start", follow_redirects=False).headers["location"]
    back = browser.get(there, follow_redirects=False)
    assert back.status_code == 303, back.text
    return back.headers["location"]


def made(**claims: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda honest: {**honest, **claims}


# Who comes in ---------------------------------------------------------------------------------------------------------


def test_a_person_of_an_allowed_domain_comes_in(site: Site, provider: Provider) -> None:
    with site.browser() as browser:
        page = browser.get("/login")
        assert f"Log in with {urlsplit(provider.issuer).netloc}" in page.text
        done = log_in(browser)
        assert (done.status_code, str(done.url)) == (200, f"{URL}/")
        me = browser.get("/v1/me").json()
        names = set(browser.cookies)
    assert me["principal"] == "person:ada"
    assert names == {"__Host-clew"}
    there = find_principal(site.authenticator.store, "person:ada")
    assert there is not None
    assert (there.title, there.login) == ("Ada Lovelace", f"{provider.issuer} {ADA['sub']}")


def test_who_was_added_comes_in_whatever_their_address(site: Site, provider: Provider) -> None:
    provider.person = dict(BOB)
    site.add("person:robert", issuer=provider.issuer, subject=BOB["sub"])
    with site.browser() as browser:
        log_in(browser)
        assert browser.get("/v1/me").json()["principal"] == "person:robert"


@pytest.mark.parametrize(
    "claims",
    [{"email": "eve@elsewhere.example"}, {"email_verified": False}, {"email": "eve@team.example.evil.example"}],
    ids=["other domain", "address not seen", "longer domain"],
)
def test_a_stranger_is_told_what_an_owner_has_to_run(site: Site, provider: Provider, claims: dict[str, Any]) -> None:
    provider.person = {**ADA, "sub": "eve '<script>", "preferred_username": "ada", **claims}
    with site.browser() as browser:
        told = log_in(browser)
        assert not is_in(browser)
    assert told.status_code == 403
    assert "<script>" not in told.text
    command = f"clew principal add NAME --issuer {provider.issuer} --subject 'eve '"
    assert command in html.unescape(told.text)


def test_who_was_shut_out_stays_out(site: Site, provider: Provider) -> None:
    provider.person = {**BOB, "sub": "gone"}
    site.add("person:gone", issuer=provider.issuer, subject="gone")
    with site.browser() as browser:
        log_in(browser)
        assert is_in(browser)
        disable_principal(site.authenticator.store, "person:gone")
        with site.browser() as another:
            assert log_in(another).status_code == 403
            assert not is_in(another)
        until = time.monotonic() + 20
        while is_in(browser):
            assert time.monotonic() < until, "a browser of theirs is still in"


def test_a_login_is_recorded_and_so_is_a_refused_one(sites: Callable[..., Site], provider: Provider) -> None:
    site = sites(domains=frozenset({"team.example"}), team_claim="groups")
    provider.person = {**ADA, "groups": ["core"]}
    with site.browser() as browser:
        log_in(browser)
    provider.person = dict(BOB)
    with site.browser() as browser:
        log_in(browser)
    log = control_log(site.authenticator.store, "*", "")
    entries = site.authenticator.store.read(log, kinds=["operation_called"])
    ada, bob = (event for event in entries if event.body.operation == "login")
    assert (ada.actor, ada.body.operation, ada.body.allowed) == ("person:ada", "login", True)
    assert json.loads(bytes(ada.body.arguments)) == {"added": True, "teams": ["team:core"]}
    [held] = list_credentials(site.authenticator.store, "person:ada")
    assert ada.body.made == (f"credential {held.id}",)
    assert (bob.actor, bob.body.allowed) == ("clew", False)
    assert f"{provider.issuer} {BOB['sub']}" in bob.body.because


def test_what_an_id_token_leaves_out_is_asked_for(site: Site, provider: Provider) -> None:
    provider.person = {"sub": "thin"}
    provider.userinfo = {"sub": "thin", "email": "thin@team.example", "email_verified": True}
    with site.browser() as browser:
        log_in(browser)
        assert browser.get("/v1/me").json()["principal"] == "person:thin"


def test_what_is_said_about_another_counts_for_nobody(site: Site, provider: Provider) -> None:
    provider.person = {"sub": "thinner"}
    provider.userinfo = {"sub": "thin", "email": "thin@team.example", "email_verified": True}
    with site.browser() as browser:
        assert log_in(browser).status_code == 401
        assert not is_in(browser)


# What is not believed -------------------------------------------------------------------------------------------------

FOREIGN = ECKey.generate_key("P-256", {"kid": "first", "alg": "ES256"})
UNKNOWN = ECKey.generate_key("P-256", {"kid": "unknown", "alg": "ES256"})
NOW = int(time.time())


@pytest.mark.parametrize(
    ("change", "because"),
    [
        (made(aud="another"), "aud"),
        (made(aud=["clew", "another"]), "azp"),
        (made(aud=None), "aud"),
        (made(iss="https://login.example"), "iss"),
        (made(exp=NOW - 120), "expired"),
        (made(exp="tomorrow"), "exp"),
        (made(nbf=NOW + 3600), "not yet valid"),
        (made(iat=NOW + 3600), "issued in the future"),
        (made(nonce="another"), "nonce"),
        (made(nonce=None), "nonce"),
        (made(sub=17), "sub"),
        (made(sub="a\nb"), "sub"),
    ],
)
def test_an_id_token_with_a_wrong_claim_is_refused(
    site: Site, provider: Provider, change: Callable[[dict[str, Any]], dict[str, Any]], because: str
) -> None:
    provider.change_claims = change
    refused(site, because)


@pytest.mark.parametrize(
    ("sign", "because"),
    [
        (unsigned, "algorithm"),
        (lambda claims: confused(claims, FIRST), "algorithm"),
        (lambda claims: Provider.sign(None, claims, FOREIGN), "signature"),  # type: ignore[arg-type]
        (lambda claims: Provider.sign(None, claims, UNKNOWN), "signature"),  # type: ignore[arg-type]
        (lambda claims: Provider.sign(None, claims, FIRST)[:-8] + "AAAAAAAA", "signature"),  # type: ignore[arg-type]
        (lambda claims: "nonsense", "not a signed token"),
        (lambda claims: "WyJhbGciXQ.e30.AA", "not a signed token"),
    ],
    ids=["none", "public key as a secret", "another key", "unknown key", "changed", "nonsense", "odd header"],
)
def test_an_id_token_that_the_provider_did_not_sign_is_refused(
    site: Site, provider: Provider, sign: Callable[[dict[str, Any]], str], because: str
) -> None:
    provider.id_token = sign
    refused(site, because)


def refused(site: Site, because: str) -> None:
    """A login comes to nothing: the person is told so, the operator why."""
    before = len(site.lines())
    with site.browser() as browser:
        told = log_in(browser)
        assert told.status_code == 401
        assert "/login" in told.text
        assert not is_in(browser)
    [line] = [line for line in site.lines()[before:] if line["event"] == "login"]
    assert because in line["message"]
    assert line["request"] in told.text


@pytest.mark.parametrize("ahead", [60, -60])
def test_clocks_may_be_a_minute_apart(site: Site, provider: Provider, ahead: float) -> None:
    provider.ahead = ahead
    provider.change_claims = lambda claims: {**claims, "nbf": claims["iat"], "exp": claims["iat"] + 30}
    with site.browser() as browser:
        log_in(browser)
        assert is_in(browser)


def test_keys_may_change_while_the_server_runs(sites: Callable[..., Site], provider: Provider) -> None:
    site = sites(domains=frozenset({"team.example"}))
    for _ in range(2):
        with site.browser() as browser:
            log_in(browser)
            assert is_in(browser)
        provider.rotate()
    provider.id_token = lambda claims: provider.sign(claims, FIRST)
    with site.browser() as browser:
        assert log_in(browser).status_code == 401, "a key that was taken back still opens"


def test_unknown_keys_do_not_make_the_server_ask_at_will(sites: Callable[..., Site], provider: Provider) -> None:
    site = sites()
    provider.id_token = lambda claims: provider.sign(claims, UNKNOWN)
    for _ in range(3):
        with site.browser() as browser:
            assert log_in(browser).status_code == 401
    assert provider.asked.count("keys") == 2, "once to begin with, once for the unknown key"
    assert provider.asked.count("about") == 1


# Whose login it is ----------------------------------------------------------------------------------------------------


def test_a_stolen_answer_opens_nothing_elsewhere(site: Site) -> None:
    with site.browser() as ada, site.browser() as eve:
        answer = begun(ada)
        assert eve.get(answer).status_code == 400
        begun(eve)
        assert eve.get(answer).status_code == 400, "nor where another login was begun"
        assert not is_in(eve)
        ada.get(answer)
        assert is_in(ada), "and it is still Ada's to use"


def test_an_answer_is_good_once(site: Site, provider: Provider) -> None:
    with site.browser() as browser:
        answer = begun(browser)
        browser.get(answer)
        assert browser.get(answer).status_code == 400
        code = parse_qs(urlsplit(answer).query)["code"][0]
        provider.change_answer = lambda honest: {**honest, "code": code}
        assert log_in(browser).status_code == 401, "the provider has given for it what it gives"


def test_a_code_of_another_login_is_worth_nothing(site: Site, provider: Provider) -> None:
    """Whoever slips a code of their own under somebody's login does not know its PKCE verifier."""
    with site.browser() as eve, site.browser() as ada:
        code = parse_qs(urlsplit(begun(eve)).query)["code"][0]
        provider.change_answer = lambda honest: {**honest, "code": code}
        assert log_in(ada).status_code == 401
        assert not is_in(ada)
    assert code not in provider.codes


def test_an_answer_to_a_login_that_was_never_begun_opens_nothing(site: Site, provider: Provider) -> None:
    """Without a cookie there is no secret, and what is made of none everybody knows."""
    nothing = LoginAttempt("")
    with site.browser() as eve, site.browser() as ada:
        start = urlsplit(eve.get("/login/start", follow_redirects=False).headers["location"])
        asked = {name: values[0] for name, values in parse_qs(start.query).items()}
        asked |= {"state": nothing.state, "nonce": nothing.nonce, "code_challenge": nothing.challenge}
        link = eve.get(f"{provider.issuer}/authorize", params=asked, follow_redirects=False).headers["location"]
        assert ada.get(link).status_code == 400
        assert not is_in(ada)


def test_what_a_browser_sees_says_nothing_about_the_verifier(site: Site) -> None:
    with site.browser() as browser:
        there = parse_qs(urlsplit(browser.get("/login/start", follow_redirects=False).headers["location"]).query)
    assert there["tenant"] == ["one"], "an address with a query keeps it"
    [state], [nonce], [challenge] = there["state"], there["nonce"], there["code_challenge"]
    assert state != nonce
    for seen in (state, nonce, challenge):
        made = hashlib.sha256(seen.encode()).digest()
        assert base64.urlsafe_b64encode(made).rstrip(b"=").decode() != challenge


@pytest.mark.parametrize(
    ("answer", "because"),
    [
        ({"iss": "https://login.example"}, "another provider"),
        ({"iss": ""}, "another provider"),
        ({"code": "", "error": "access_denied"}, "access_denied"),
        ({"code": "", "error": "<b>"}, "without a known name"),
    ],
)
def test_an_answer_of_another_or_a_refusal_is_none(
    site: Site, provider: Provider, answer: dict[str, str], because: str
) -> None:
    provider.change_answer = lambda honest: {
        name: value for name, value in {**honest, **answer}.items() if value
    }  # fmt: skip
    refused(site, because)


def test_nobody_can_send_a_browser_elsewhere(site: Site) -> None:
    evil = "https://evil.example/"
    with site.browser() as browser:
        there = browser.get(
            "/login/start", params={"next": evil, "redirect_uri": evil}, headers={"x-forwarded-host": "evil.example"},
            follow_redirects=False,
        )  # fmt: skip
        assert "evil" not in there.headers["location"]
        back = browser.get(there.headers["location"], follow_redirects=False).headers["location"]
        done = browser.get(f"{back}&next={evil}&redirect_uri={evil}", follow_redirects=False)
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert browser.get("/login/start", headers={"host": "evil.example"}).status_code == 403


def test_cookies_are_for_this_site_and_no_script(site: Site) -> None:
    with site.browser() as browser:
        start = browser.get("/login/start", follow_redirects=False)
        back = browser.get(start.headers["location"], follow_redirects=False).headers["location"]
        done = browser.get(back, follow_redirects=False)
    given = [*start.headers.get_list("set-cookie"), *done.headers.get_list("set-cookie")]
    assert [one.partition("=")[0] for one in given] == ["__Host-clew-login", "__Host-clew", "__Host-clew-login"]
    for one in given:
        assert {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"} <= {part.strip() for part in one.split(";")}
        assert "Domain" not in one


# A provider in trouble ------------------------------------------------------------------------------------------------


def test_without_the_provider_people_are_told_and_keys_go_on(tmp_path: Path, provider: Provider) -> None:
    with Provider(f"{URL}/login/callback") as gone:
        pass
    with Site(tmp_path, trusted(gone)) as site:
        site.add("person:key", rights=frozenset())
        with site.browser() as browser:
            told = log_in(browser)
            assert browser.get("/login").status_code == 200
        with site.program(site.key("person:key")) as program:
            assert program.get("/v1/me").status_code == 200
        with site.program(provider.access_token(URL, "clew:see")) as program:
            refused = program.get("/v1/me")
        assert told.status_code == 503
        assert "cannot be reached just now" in told.text
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert "openid-configuration" not in told.text + refused.text
        messages = [line["message"] for line in site.lines() if line["event"] == "login"]
        assert messages
        assert all("openid-configuration cannot be reached: ConnectError" in one for one in messages)


@pytest.mark.parametrize(
    ("about", "because"),
    [
        ({"issuer": "https://login.example"}, "calls itself 'https://login.example'"),
        ({"token_endpoint": "http://login.example/token"}, "which is not https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "which is not https"),
        ({"jwks_uri": 7}, "unexpected document"),
        ({"padding": "x" * 2_000_000}, "more than 1,048,576 bytes"),
    ],
)
def test_a_provider_that_is_none_is_named_at_the_start(provider: Provider, about: dict[str, Any], because: str) -> None:
    assert warning(trusted(provider)) == ""
    provider.about = about
    assert because in warning(trusted(provider))


def test_a_wrong_client_secret_is_told_to_the_operator_alone(sites: Callable[..., Site]) -> None:
    wrong = secrets.token_urlsafe(20)
    site = sites(client_secret=wrong)
    refused(site, "invalid_client")
    assert wrong not in site.log.getvalue()
    assert wrong not in repr(site.application.options)


def test_nothing_secret_is_in_the_log(site: Site, provider: Provider) -> None:
    with site.browser() as browser:
        answer = begun(browser)
        cookie = browser.cookies["__Host-clew-login"]
        browser.get(answer)
        key = browser.cookies["__Host-clew"]
        provider.id_token = unsigned
        log_in(browser)
    site.lines()
    code = parse_qs(urlsplit(answer).query)["code"][0]
    for secret in (cookie, key, code, SECRET, ADA["sub"], "eyJ"):
        assert str(secret) not in site.log.getvalue()


def test_weak_and_shared_keys_check_nothing() -> None:
    import warnings

    from joserfc.jwk import OctKey

    from clew.server.login.oidc_tokens import key_set

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weak = RSAKey.generate_key(1024, {"kid": "weak"})
    shared = OctKey.generate_key(256, {"kid": "shared"})
    secret = RSAKey.import_key({**FIRST.as_dict(private=False), "use": "enc"})
    published = [key.as_dict(private=False) for key in (weak, secret, FIRST)] + [shared.as_dict(private=True)]
    assert [key.kid for key in key_set(published)] == ["first"]
