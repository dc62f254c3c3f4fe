"""Tokens of an OpenID provider. A valid one is signed with its key and its algorithm, for this server, for now.

A token does not choose how it is verified. Its algorithm has to be on our list and be asymmetric: with a symmetric one,
anybody who knows the provider's public key could sign.
"""

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, KeySet
from joserfc.jws import JWSRegistry

from clew.model.access import Right

# Asymmetric algorithms alone: the public key verifies and cannot sign.
ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split())
# The allowed difference between the clocks of two machines.
LEEWAY_SECONDS = 60
LONGEST_SUBJECT = 255
LONGEST_HEADER = 4096
# The length of an RSA modulus of 2048 bits in base64.
SHORTEST_MODULUS = 342
SCOPE_PREFIX = "clew:"

Claims = dict[str, Any]


class Untrusted(Exception):
    """A token or an answer failed its verification; the text says why, and holds nothing of a token."""


class Header(msgspec.Struct, frozen=True):
    """The header of a token: how it is signed."""

    alg: str
    kid: str | None = None
    typ: str = ""


def header_of(token: str) -> Header:
    """The header of a token, which is not verified yet."""
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii() or len(parts[0]) > LONGEST_HEADER:
        raise Untrusted("it is not a signed token (JWT)")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(parts[0] + "=="), type=Header)
    except (msgspec.DecodeError, binascii.Error, RecursionError, UnicodeError):
        raise Untrusted("it is not a signed token (JWT)") from None


def key_set(keys: Iterable[Mapping[str, Any]]) -> KeySet:
    """The keys that can verify a signature; other keys that a provider publishes are left out."""
    usable = []
    for key in keys:
        is_weak = key.get("kty") == "RSA" and len(str(key.get("n", ""))) < SHORTEST_MODULUS
        if key.get("kty") == "oct" or key.get("use", "sig") != "sig" or is_weak:
            continue
        try:
            usable.append(JWKRegistry.import_key(dict(key)))
        except (JoseError, ValueError, TypeError, KeyError):
            continue  # An unknown kind of key does not make the others unusable.
    return KeySet(usable)


def signed_claims(token: str, keys: KeySet, algorithms: Iterable[str]) -> Claims:
    """The claims of a token that one of the keys has signed."""
    allowed = ALGORITHMS.intersection(algorithms)
    header = header_of(token)
    if header.alg not in allowed:
        raise Untrusted(f"its algorithm is not one of {', '.join(sorted(allowed)) or 'ours'}")
    registry = JWSRegistry(algorithms=sorted(allowed), strict_check_header=False)
    registry.max_header_length = LONGEST_HEADER
    try:
        return jwt.decode(token, keys, registry=registry).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        raise Untrusted("its signature is not that of a key of the provider") from None


def check_claims(claims: Claims, *, issuer: str, audience: Iterable[str]) -> str:
    """Refuse claims of another issuer, for another audience or another time; returns the subject."""
    wanted = jwt.JWTClaimsRegistry(
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "values": list(audience)},
        sub={"essential": True},
        exp={"essential": True},
    )
    try:
        wanted.validate(claims)
    except JoseError as error:
        # The description names the claim and what is wrong with it, never its value.
        raise Untrusted(error.description or f"wrong claim {error.error}") from None
    subject = str(claims["sub"])
    if len(subject) > LONGEST_SUBJECT or not subject.isprintable():
        raise Untrusted("its subject (sub) is too long, or no text")
    return subject


def check_id_token(claims: Claims, *, issuer: str, client_id: str, nonce: str) -> None:
    """Refuse an ID token that does not answer this login attempt."""
    check_claims(claims, issuer=issuer, audience=[client_id])
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise Untrusted("it answers another login (nonce)")
    has_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if has_several else client_id) != client_id:
        raise Untrusted("it was made for another program (azp)")


# The claims that name a person and an address; whether an address is verified says nothing about another one.
PERSON_CLAIMS = ("email", "email_verified", "name", "preferred_username")


def claims_of_one_source(claims: Claims, userinfo: Claims, team_claim: str) -> Claims:
    """The claims of an ID token; those about the person, or the teams, come from userinfo alone if it lacks them."""
    if userinfo.get("sub") != claims["sub"]:
        raise Untrusted("the provider's userinfo does not say that it is about the same person (sub)")
    chosen = dict(claims)
    if "email" not in claims:
        for name in PERSON_CLAIMS:
            chosen.pop(name, None)
            if name in userinfo:
                chosen[name] = userinfo[name]
    if team_claim and team_claim not in claims and team_claim in userinfo:
        chosen[team_claim] = userinfo[team_claim]
    return chosen


def check_access_token(token: str, claims: Claims, *, issuer: str, audience: Iterable[str]) -> str:
    """Refuse an access token that is not for this server; returns the subject."""
    if header_of(token).typ.lower() not in ("", "jwt", "at+jwt", "application/at+jwt"):
        raise Untrusted("it is a token for something else (typ)")
    if "cnf" in claims:
        raise Untrusted("it is bound to a key of its holder (cnf), which is not checked here; use a bearer token")
    return check_claims(claims, issuer=issuer, audience=audience)


def scopes_of(claims: Claims) -> frozenset[Right]:
    """The rights that the scopes of an access token name."""
    scopes = claims.get("scope", claims.get("scp", ""))
    words = scopes.split() if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    rights = frozenset(right for right in Right if f"{SCOPE_PREFIX}{right}" in words)
    # Budgets and holds were parts of `administer` before they were rights, and providers know only that scope.
    return rights | {Right.BUDGET, Right.HOLD} if Right.ADMINISTER in rights else rights
