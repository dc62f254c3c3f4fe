"""Where sessions are looked for, without loading every adapter."""

from pathlib import Path, PurePosixPath

import pytest

from clew.runtimes import MODULES, SIGNS, present, runtime


def test_every_adapter_has_its_signs() -> None:
    assert SIGNS.keys() == MODULES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_every_pattern_begins_with_a_sign(name: str) -> None:
    one = runtime(name)
    signs, variables = SIGNS[name]
    assert list(variables) == one.variables
    for pattern in (pattern for format in one.formats for pattern in format.patterns):
        whole = PurePosixPath(one.home) / pattern
        assert any(whole.is_relative_to(sign) for sign in signs), whole


def test_only_what_may_be_there_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in {variable for _, variables in SIGNS.values() for variable in variables}:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".pi" / "agent").mkdir(parents=True)
    assert {one.name for one in present(tmp_path, variables=True)} == {"codex", "pi"}
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere"))
    assert {one.name for one in present(tmp_path, variables=True)} == {"claude-code", "codex", "pi"}
    assert {one.name for one in present(tmp_path, variables=False)} == {"codex", "pi"}
