"""What `clew serve` is told about a provider is checked before anything listens, and its secret is shown nowhere."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from clew.cli.run import clew
from clew.model.errors import InvalidInput
from clew.server.login.oidc_options import oidc_options
from clew.server.options import Oidc

GOOD = {"--oidc-issuer": "https://login.example", "--oidc-client-id": "clew", "--public-url": "https://clew.example"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--oidc-issuer": ""}, "name it with --oidc-issuer"),
        ({"--oidc-client-id": ""}, "name --oidc-client-id"),
        ({"--public-url": ""}, "--public-url is missing"),
        ({"--public-url": "http://clew.example"}, "has to be an https address"),
        ({"--oidc-issuer": "http://login.example"}, "has to be an https address"),
        ({"--oidc-issuer": "http://127.0.0.1.login.example"}, "has to be an https address"),
        ({"--oidc-client-id": "https://clew.example"}, "would pass for access tokens"),
        ({"--oidc-client-secret-file": "/nonexistent"}, "cannot be read"),
    ],
)
def test_half_a_provider_is_refused(tmp_path: Path, change: dict[str, str], said: str) -> None:
    options = {**GOOD, **change}
    words = [word for name, value in options.items() if value for word in (name, value)]
    # Two processes on SQLite are refused afterwards: a test that fails must not serve for ever.
    refused = CliRunner().invoke(clew, ["--home", str(tmp_path), "serve", "--processes", "2", *words]).exception
    assert isinstance(refused, InvalidInput)
    assert said in str(refused)


def made(secret_file: str | None) -> Oidc:
    found = oidc_options(
        "http://localhost:8519", issuer="http://localhost:5556", client_id="clew", secret_file=secret_file,
        domains=("@Team.Example",), team_claim="groups",
    )  # fmt: skip
    assert found is not None
    return found


def test_the_secret_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(None).client_secret == ""
    monkeypatch.setenv("CLEW_OIDC_CLIENT_SECRET", "from the environment")
    assert made(None).client_secret == "from the environment"
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    found = made(str(file))
    assert found.client_secret == "from a file"
    assert found.domains == {"team.example"}
    assert "from a file" not in repr(found)
