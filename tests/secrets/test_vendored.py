"""The rule file of gitleaks is theirs: unchanged, and with its notice."""

import hashlib
from importlib import resources

FOLDER = resources.files("clew.secrets")


def test_the_vendored_rules_are_unchanged_and_carry_their_licence() -> None:
    """What differs for us is in clew.toml; a newer file comes with its own digest."""
    digest = hashlib.sha256((FOLDER / "gitleaks.toml").read_bytes()).hexdigest()
    assert digest == "e163e53b9e7e8a8511e77271e2b323ed057759542a6d988258afe3a1fa329caf"
    notice = (FOLDER / "gitleaks.LICENSE").read_text()
    assert "MIT License" in notice
    assert "Zachary Rice" in notice
