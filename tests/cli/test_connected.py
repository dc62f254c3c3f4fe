"""What `clew connect` wrote is found again, whoever changed it, and nobody else can change what it runs."""

import os
from pathlib import Path

import pytest

from clew.model.errors import InvalidInput
from clew.service.capture.connected import check_private
from cli.conftest import Clew


def findings(clew: Clew, person: Path) -> dict[bool, list[str]]:
    run = clew("doctor", "--json", HOME=str(person))
    found: dict[bool, list[str]] = {True: [], False: []}
    for line in run.objects:
        if line["what"] == "connection":
            found[line["ok"]].append(line["found"])
    return found


CHANGES = {
    "another command": lambda text: text.replace("/hook.py", "/evil.py"),
    "a mark that is gone": lambda text: text.replace("|| true # clew", "|| true"),
    "another server": lambda text: text.replace('"-m",', '"-m", "evil",'),
    "another environment": lambda text: text.replace(
        '"CLEW_RUNTIME": "gemini-cli"', '"CLEW_RUNTIME": "x", "LD_PRELOAD": "y"'
    ),
    "all taken out": lambda text: "{}",
    "a hook more": lambda text: text.replace(
        '"AfterTool": [', '"Other": [{"command": "evil 2>/dev/null || true # clew"}], "AfterTool": ['
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_doctor_finds_a_change_of_what_connect_wrote(clew: Clew, tmp_path: Path, change: object) -> None:
    (tmp_path / ".gemini").mkdir()
    settings = tmp_path / ".gemini" / "settings.json"
    settings.write_text('{"theme": "dark"}')
    assert findings(clew, tmp_path) == {True: [], False: []}
    shown = clew("connect", "gemini-cli", "--yes", HOME=str(tmp_path))
    assert "with all your rights" in shown.err
    assert os.path.dirname(os.__file__)[:1] == "/"
    assert [len(lines) for lines in findings(clew, tmp_path).values()] == [1, 0]
    text = settings.read_text()
    assert callable(change)
    changed = change(text)
    assert changed != text
    settings.write_text(changed)
    assert [len(lines) for lines in findings(clew, tmp_path).values()] == [0, 1]
    settings.write_text(text.replace("dark", "light"))
    assert [len(lines) for lines in findings(clew, tmp_path).values()] == [1, 0]
    assert clew("disconnect", "gemini-cli", "--yes", HOME=str(tmp_path)).code == 0
    assert findings(clew, tmp_path) == {True: [], False: []}


def test_a_hook_is_a_file_that_nobody_else_can_replace(tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    folder.mkdir(mode=0o755)
    hook = folder / "hook.py"
    hook.write_text("")
    hook.chmod(0o644)
    check_private([str(hook)])
    for path, mode in ((hook, 0o666), (folder, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(InvalidInput, match="written by every account"):
            check_private([str(hook)])
        path.chmod(before)
    check_private([str(hook)])
    with pytest.raises(InvalidInput, match="absolute"):
        check_private(["hook.py"])
    if os.geteuid() == 0:
        os.chown(hook, 65534, 65534)
        with pytest.raises(InvalidInput, match="another account"):
            check_private([str(hook)])
