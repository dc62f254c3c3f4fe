"""No terminal obeys stored text: whatever is in the store, no line of any command has a raw control character."""

import re
from pathlib import Path
from typing import Any

import pytest

from clew.cli import run as commands
from clew.model.access import owner_of_everything
from clew.model.errors import ClewError
from clew.service import Context, call
from clew.service.kernel.registry import load
from clew.store import open_store
from isolation.tenants import NAMES, PLAIN, Question
from parity.surfaces import patched, words_of

# A title of the window, the screen cleared, a line drawn over, the direction turned round, and a C1 control.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[1A over\rdrawn\x08\x9b31m\u202egnp.exe"
# What `plain` writes out; line feeds and tabs keep their meaning.
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
ME = "person:ada"
# They end what the others need.
LAST = ("archive", "close", "erase", "key_rotate", "key_revoke", "access_end", "principal_disable")


def planted(url: str, home: Path) -> dict[str, Any]:
    """A store with hostile text in every field that takes one."""
    with open_store(url) as store:
        me = Context(store=store, unrestricted=store, principal=ME, grants=(owner_of_everything(ME),), home=str(home))

        def kept(operation: str, /, **arguments: Any) -> Any:
            """What comes of an operation, with hostile text where it takes some and with plain text where not."""
            try:
                return call(me, operation, arguments)
            except ClewError:
                tame = {key: "tame" if isinstance(value, str) and EVIL in value else value
                        for key, value in arguments.items()}  # fmt: skip
                return call(me, operation, tame)

        call(me, "principal_add", {"principal": ME, "title": EVIL})
        project = kept("open", project=f"shop{EVIL}", title=EVIL).project
        metadata = {"runtime": "codex", "cwd": f"/{EVIL}", "note": EVIL}
        session = kept("open", project=project, agent=f"bot{EVIL}", title=EVIL, metadata=metadata).id
        drafts: list[dict[str, Any]] = [
            {"kind": "message_added", "role": "user", "text": f"please word {EVIL}"},
            {"kind": "call_made", "call": "1", "tool": f"Read{EVIL}", "input": {"file_path": f"{EVIL}.py", "x": EVIL}},
            {"kind": "call_returned", "call": "1", "output": f"word {EVIL}", "failed": True},
            {"kind": "usage_counted", "usage": {"input": 7}, "model": f"model{EVIL}", "message": "m"},
            {"kind": "runtime_attached", "runtime": "codex", "machine": f"box{EVIL}", "cwd": f"/{EVIL}"},
            {"kind": "artifact_saved", "name": f"plan{EVIL}", "blob": "", "size": 1},
            {"kind": "scratch_set", "name": f"n{EVIL}", "value": {"x": EVIL}},
            {"kind": "fact_learned", "fact": f"f{EVIL}", "text": f"word {EVIL}"},
            {"kind": "decision_made", "decision": f"d{EVIL}", "choice": f"word {EVIL}", "rejected": [EVIL]},
            {"kind": "progress_noted", "done": EVIL, "next": EVIL, "open": [EVIL]},
        ]  # fmt: skip
        for draft in drafts:
            try:
                call(me, "append", {"session": session, "drafts": [draft]})
            except ClewError:
                assert draft["kind"] in ("artifact_saved", "runtime_attached"), draft
        child = kept("fork", session=session, title=EVIL).id
        kept("pause", session=child, reason=EVIL)
        kept("resume", session=child, reason=EVIL)
        agent = kept("agent_register", name=f"bot{EVIL}", project=project, instructions=EVIL, model=EVIL).name
        kept("team_add", name=f"core{EVIL}", principal=ME)
        kept("retention_set", project=project, keep_days=30)
        key = kept("key_create", principal=ME, label=EVIL[:100]).id
        grant = kept("access_grant", who="bob", role="viewer", project=project).id
        kept("close", session=kept("open", project=project, title=EVIL).id, outcome="completed", summary=EVIL)
        kept("erase", session=kept("open", project=project, title=EVIL).id, reason=EVIL)
    return {
        "session": session, "child": child, "project": project, "agent": agent, "person": ME, "key": key,
        "grant": grant, "fact": f"f{EVIL}", "decision": f"d{EVIL}", "file": "src", "word": "word", "job": EVIL,
        "machine": EVIL, "model": EVIL,
    }  # fmt: skip


def asked(known: dict[str, Any]) -> list[Question]:
    """Every operation as it is, and with hostile text in each of its arguments, for what an error repeats."""
    questions = []
    for operation in load().values():
        own = {
            p.name: known[NAMES.get(p.name, "session")] if p.name in NAMES or p.is_session else PLAIN.get(p.name, "x")
            for p in operation.parameters if p.required
        }  # fmt: skip
        questions.append(Question(operation.name, own))
        questions += [Question(operation.name, {**own, p.name: f"{EVIL}x"}) for p in operation.parameters]
    return sorted(questions, key=lambda question: question.operation in LAST)


def test_no_line_of_any_command_has_a_raw_control_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    url = f"sqlite:///{home / 'clew.db'}"
    known = planted(url, home)
    for name, value in (("CLEW_HOME", str(home)), ("CLEW_STORE", ""), ("CLEW_PRINCIPAL", ME), ("HOME", str(tmp_path)),
                        ("NO_COLOR", "1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    printed = shown = 0
    obeyed: list[str] = []
    lines = [words for question in asked(known) if (words := words_of(question)) is not None]
    session, child = known["session"], known["child"]
    lines += [[*words, "--json"] for words in (
        ["show", session], ["show", session, "--at", "3"], ["show", session, "--events"], ["diff", session, child],
        ["tail", session], ["brief", session], ["export", session, "--as", "markdown"], ["sessions", "--tree"],
        ["usage", "--by", "model"], ["usage", "--by", "agent"], ["audit", "log"], ["search", EVIL],
        ["doctor"], ["key", "list"], ["runtimes"], ["remote", "list"], ["show", EVIL], ["share", EVIL, EVIL], [EVIL],
        ["search", "word", "--flat"], ["resume", session, "--in", "codex", "--print"],
    )]  # fmt: skip
    for words in lines:
        words = [word for word in words if word != "--json"]
        with patched(["clew", *words], ""):
            commands.run()
        out, err = capsys.readouterr()
        for text in (out, err):
            raw = RAW.search(text)
            assert raw is None, f"clew {words!r} prints {raw[0]!r}: {text[max(0, raw.start() - 80) :][:200]!r}"
        printed += 1
        shown += "owned" in out + err
    assert not obeyed, "\n".join(obeyed)
    assert printed > 200
    assert shown > 40, "hostile text was hardly shown at all"
