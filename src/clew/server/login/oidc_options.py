"""The OpenID provider in the options of `clew serve`, checked before the server listens."""

import os
from pathlib import Path

from clew.model.errors import InvalidInput
from clew.server.options import Oidc, is_safe_url

SECRET_VARIABLE = "CLEW_OIDC_CLIENT_SECRET"  # noqa: S105


def oidc_options(
    public_url: str, *, issuer: str, client_id: str, secret_file: str | None, domains: tuple[str, ...], team_claim: str
) -> Oidc | None:
    """The provider; None if no issuer is named."""
    if not issuer:
        if client_id or secret_file or domains or team_claim:
            raise InvalidInput("there are options for a provider, but no provider; name it with --oidc-issuer")
        return None
    if not client_id:
        raise InvalidInput(
            "the provider needs a client id for this server; register it there and name --oidc-client-id"
        )
    for option, url in (("--oidc-issuer", issuer), ("--public-url", public_url)):
        if not is_safe_url(url):
            raise InvalidInput(
                f"{option} is {url if url else 'missing'}; with a provider it has to be an https address, or an http "
                "address of this machine: logins and tokens are tied to it"
            )
    own_url = public_url.rstrip("/")
    if client_id in (own_url, f"{own_url}/mcp"):
        raise InvalidInput(
            "--oidc-client-id is this server's address, so ID tokens of its logins would pass for access tokens"
        )
    return Oidc(
        issuer=issuer, client_id=client_id, client_secret=_secret(secret_file),
        domains=frozenset(domain.lower().removeprefix("@") for domain in domains), team_claim=team_claim,
    )  # fmt: skip


def _secret(file: str | None) -> str:
    """The client's secret. It is never an argument, because every account on the machine can read arguments."""
    if file is None:
        return os.environ.get(SECRET_VARIABLE, "")
    try:
        secret = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read as the client's secret: {type(error).__name__}") from None
    if not secret:
        raise InvalidInput(f"{file} is empty; expected the client's secret")
    return secret


def warning(oidc: Oidc) -> str:
    """Why the provider cannot be used just now; empty if it can."""
    from clew.server.login.oidc_provider import Provider, Unreachable

    try:
        Provider(oidc).metadata()
    except Unreachable as error:
        return str(error)
    return ""
