"""Which claims of a provider decide who somebody is: those of one source, about one person, of a whole address."""

import pytest

from clew.server.login.oidc_principals import _is_of_allowed_domain
from clew.server.login.oidc_tokens import Untrusted, claims_of_one_source
from clew.server.options import Oidc

OIDC = Oidc("https://provider.example", "clew", domains=frozenset({"corp.example"}))


def test_a_verified_address_is_not_mixed_from_two_sources() -> None:
    """One source verified its own address, and the other named another one."""
    token = {"sub": "s", "email_verified": True}
    merged = claims_of_one_source(token, {"sub": "s", "email": "eve@corp.example"}, "")
    assert not _is_of_allowed_domain(OIDC, merged)
    token = {"sub": "s", "email": "eve@corp.example"}
    merged = claims_of_one_source(token, {"sub": "s", "email": "e@else.example", "email_verified": True}, "groups")
    assert not _is_of_allowed_domain(OIDC, merged)


def test_userinfo_alone_is_a_source() -> None:
    more = {"sub": "s", "email": "ann@corp.example", "email_verified": True, "groups": ["a"]}
    merged = claims_of_one_source({"sub": "s"}, more, "groups")
    assert _is_of_allowed_domain(OIDC, merged)
    assert merged["groups"] == ["a"]
    assert claims_of_one_source({"sub": "s", "groups": []}, more, "groups")["groups"] == []


@pytest.mark.parametrize(
    "more", [{"email": "ann@corp.example"}, {"sub": "other", "email": "ann@corp.example"}, {"sub": None}]
)
def test_userinfo_names_its_person(more: dict[str, object]) -> None:
    with pytest.raises(Untrusted, match="sub"):
        claims_of_one_source({"sub": "s"}, more, "")


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("ann@corp.example", True), ("Ann@CORP.example", True), ("corp.example", False), ("@corp.example", False),
        (" @corp.example", False), ("ann@corp.example@else.example", False), ("ann@else.example@corp.example", False),
        ("ann@corp.example.else", False), (["ann@corp.example"], False), (None, False),
    ],
)  # fmt: skip
def test_an_address_of_an_allowed_domain_has_a_name_and_one_at(address: object, is_allowed: bool) -> None:
    assert _is_of_allowed_domain(OIDC, {"sub": "s", "email": address, "email_verified": True}) == is_allowed
