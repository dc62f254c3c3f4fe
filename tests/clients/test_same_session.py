"""A session resumed by its client and through clew tells the model the same: the recorded sessions of each client."""

from pathlib import Path

import pytest

from clients.same_session import compare

FIXTURES = Path(__file__).parent.parent / "runtimes/fixtures"
SESSIONS = [
    "claude_code/session", "codex/tools", "copilot_cli/events", "gemini_cli/compacted", "gemini_cli/resumed",
    "pi/tree", "qwen_code/session",
]  # fmt: skip

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("name", SESSIONS)
def test_both_ways_to_resume_a_session_tell_the_model_the_same(name: str, tmp_path: Path) -> None:
    compared = compare(FIXTURES / f"{name}.jsonl", tmp_path)
    assert (compared.verdict, compared.why) == ("same", "")
    assert compared.counts
