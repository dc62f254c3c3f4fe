"""Secrets on the command line: masked, counted, and given when asked for."""

import random
from pathlib import Path

from clew.service.handover.export import Form
from cli.conftest import Clew
from support import claude
from support.fake_secrets import KINDS


def test_the_commands_mask_count_and_give_the_exact_bytes_when_asked(clew: Clew, tmp_path: Path) -> None:
    secret = KINDS["ANTHROPIC_API_KEY"](random.Random(8))
    person = tmp_path / "person"
    story = [*claude.story(), claude.says("u9", "u1", f'use ANTHROPIC_API_KEY="{secret}", please')]
    claude.transcript(person).write_bytes(claude.lines(story))
    session = clew("capture", "--home", str(person), "--json").objects[0]["session"]
    project = clew("sessions", "--json").objects[0]["project"]
    for form in (Form.NATIVE, Form.HTML):
        done = clew("export", session, "--as", form)
        assert (done.code, secret in done.out) == (0, False)
        assert "masked: " in done.err
        assert "anthropic-api-key" in done.err
    exact = clew("export", session, "--as", "native", "--with-secrets")
    assert (exact.out.encode(), exact.err) == (claude.transcript(person).read_bytes(), "")
    [written] = clew("export", session, "--out", f"{tmp_path / 'out'}/", "--json").objects
    assert written["masked"] == {"anthropic-api-key": 1}
    *found, total = clew("scan", session, "--json").objects
    assert (total["secrets"], total["rules"]) == (1, {"anthropic-api-key": 1})
    assert [one["rule"] for one in found] == ["anthropic-api-key"]
    done = clew("scan", "--project", project)
    assert (done.code, secret in done.out) == (0, False)
    assert "1 secret in 1 session: anthropic-api-key 1" in done.out
    assert clew("scan", "--project", "nowhere").code == 3
