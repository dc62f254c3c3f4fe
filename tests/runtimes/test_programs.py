"""What is read of programs that clew reads and does not write: what was said, called and returned, and their name."""

import json
from pathlib import Path, PurePath
from typing import Any

import pytest

from clew.model.conversation import conversation
from clew.model.events import CallMade, CallReturned, MessageAdded, RuntimeAttached, TextPart
from clew.runtimes import canonical, runtime
from clew.runtimes.conformance.declaration import format_of, identify
from clew.runtimes.conformance.reading import database_of
from clew.runtimes.contract import Reading
from clew.runtimes.records import Translated, read_lines, read_records
from clew.service.capture.discovery import recognise
from support.program_samples import SAMPLES
from support.samples import samples
from support.transcripts import events

# One line for each message, call and result of each session: `>` is the person, `<` the agent, `#` a thought.
LOOK = ["> list the files", "# a listing", "< I look."]
RAN = [*LOOK, '! shell {"command":"ls"}', "= a.txt", "< One file."]
SAID = {
    "antigravity": [[*LOOK, '! list_dir {"DirectoryPath":"\\"/home/me/app\\""}', '= {"name":"a.txt"}\n',
                     "! run_command {}", "x no such file", "< One file."]],
    "kiro": [
        [*LOOK, '! shell {"command":"ls"}', '= {"exit_status":"exit status: 0","stdout":"a.txt"}', "< One file."],
        ["> list the files", "< I look.", '! execute_bash {"command":"ls"}', "= a.txt", "< One file."],
        ["> list", "< One file."],
    ],
    "grok": [
        ["> list the files", "# a listing", "< I look.", '! run_terminal_cmd {"command":"ls"}', "= a.txt",
         '! web_search {"query":"files"}', "= completed", "> and then?", "< One file."],
        ["system You are Grok", "> read it", "< I read.", "! read_file {}", "= a"],
    ],
    "gptme": [["> list the files", "< I look.", '! shell {"command":"ls"}', "= a.txt", "< ```shell\nls -l\n```",
               "system Ran command: `ls -l`"]],
    "openclaw": [["> list the files", "< I look.", '! exec {"command":"ls"}', "= a.txt", "< One file."]],
    "traex": [["> list the files", '! shell {"command":"ls"}', "= a.txt", "< One."]],
    "iflow": [["> read both", "< I read.", '! read_file {"absolute_path":"a"}', '! read_file {"absolute_path":"b"}',
               "= text of a", "x text of b", "< Both read."]],
    "codebuddy": [["> list the files", "# a listing", '! Bash {"command":"ls"}', "= a.txt", "< One file."]],
    "workbuddy": [["> list the files", "# a listing", '! Bash {"command":"ls"}', "= a.txt", "< One file."]],
    "amp": [[*LOOK, '! Bash {"cmd":"ls"}', '! Bash {"cmd":"ls"}', '= {"output":"a.txt"}', "x no", "< One file."]],
    "goose": [
        ["> list the files", "# hm", "< I look.", '! developer__shell {"command":"ls"}', "= a.txt", "< One file."],
        ["> list the files", "< One file."],
    ],
    "zed": [["> list the files", "> the file a.txt", "# hm", "< I look.", '! terminal {"command":"ls"}', "= a.txt",
             "< One file."]] * 2,
    "copilot-chat": [
        ["> list the files", "# a listing", "< I look.", '! list_dir {"path":"."}', "= a.txt", "< One file.",
         "> again", "< I look /home/me/app", "! copilot_listDirectory {}", "= Listed", "# hm", "< One file."],
        ["> list the files", "# a listing", "< I look.", '! list_dir {"path":"."}', "= a.txt", "< One file."],
    ],
    "continue": [["> read a.txt", "# a file", "< I read.", '! read_file {"filepath":"a.txt"}',
                  '! run_terminal_command "{broken"', "= one", "x ", "< It says one."]],
    "chatgpt": [
        ["> [file-service://file-1]\ncount the lines", "# code", '! python "len(lines)"', "= 3", "< Three."],
        ["> an edited prompt"],
    ],
    "claude-ai": [
        ["> search it", "> [file a.txt]\none", "> [file b.png]", "# hm", "< I search.", '! web_search {"query":"x"}',
         "= found", ">  thanks "],
        ["> search it", "> [file a.txt]\none", "> [file b.png]"],
    ],
}  # fmt: skip


def sessions(name: str) -> list[Translated]:
    """What is read of each session in a program's samples."""
    one, read = runtime(name), []
    for path, data in samples(name).items():
        format = format_of(one, path, data)
        if format.rows is not None:
            members = [(identity.native, records) for identity, records in database_of(format, data)]
        elif format.sessions is not None and format.split is not None:
            members = [(identity.native, list(format.split(part))) for identity, part in format.sessions(data)]
        elif format.split is not None:
            members = [("n", list(format.split(data)))]
        else:
            read.append(read_lines(format, Reading(name, identify(format, path, data).native, format.state()), data))
            continue
        read += [read_records(format, Reading(name, native, format.state()), records) for native, records in members]
    return read


def shown(translated: Translated) -> list[str]:
    lines: list[str] = []
    for message in conversation(events(translated.drafts)):
        body = message.body
        if isinstance(body, MessageAdded):
            mark = {"user": ">", "assistant": "<"}.get(body.role, body.role)
            for part in body.content:
                if isinstance(part, TextPart):
                    lines.append(f"{mark} {part.text}")
                elif text := getattr(part, "text", ""):
                    lines.append(f"# {text}")
        elif isinstance(body, CallMade):
            lines.append(f"! {body.tool} {json.dumps(json.loads(bytes(body.input)), separators=(',', ':'))}")
        elif isinstance(body, CallReturned):
            output = json.loads(bytes(body.output))
            text = output if isinstance(output, str) else bytes(body.output).decode()
            lines.append(f"{'x' if body.failed else '='} {text}")
    return lines


@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_said_called_and_returned_is_read_in_order(name: str) -> None:
    assert [shown(translated) for translated in sessions(name)] == SAID[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_session_has_its_programs_own_name(name: str) -> None:
    for translated in sessions(name):
        named = [draft.body.runtime for draft in translated.drafts if isinstance(draft.body, RuntimeAttached)]
        assert named == [name]
        kinds = {draft.body.kind.partition(".")[0] for draft in translated.drafts if "." in draft.body.kind}
        assert kinds <= {name}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_recognised_where_its_program_left_it(name: str, tmp_path: Path) -> None:
    for path, data in samples(name).items():
        file = tmp_path / runtime(name).home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        assert recognise(str(file))[0] == name, path


# What is elsewhere, say in a backup, is recognised by its content; WorkBuddy's cannot be told from CodeBuddy's.
@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("workbuddy", "kiro", "grok", "zed")])
def test_a_file_is_recognised_without_its_folder(name: str, tmp_path: Path) -> None:
    for path, data in samples(name).items():
        file = tmp_path / PurePath(path).name
        file.write_bytes(data)
        assert recognise(str(file))[0] == name, path


def test_other_programs_keep_their_own_files(tmp_path: Path) -> None:
    for name in ("claude-code", "codex", "pi", "droid", "cline", "openai-chat", "atif", "gemini-cli"):
        for path, data in samples(name).items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            assert recognise(str(file))[0] == name, path


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gptme", (12, 4, 8, 1_200)),
        ("codebuddy", (15, 4, 5, 0)),
        ("amp", (9, 4, 2, 0)),
        ("goose", (10, 4, 20, 10_000)),
        ("zed", (9, 4, 0, 0)),
        ("copilot-chat", (30, 4, 0, 0)),
        ("continue", (9, 4, 0, 0)),
    ],
)
def test_usage_is_read_once(name: str, tokens: tuple[int, ...]) -> None:
    spent: list[Any] = [getattr(draft.body, "usage", None) for draft in sessions(name)[0].drafts]
    [usage] = [usage for usage in spent if usage is not None]
    assert (usage.input, usage.output, usage.cache_read, usage.cost_micros) == tokens


def test_an_editors_log_of_changes_is_read_while_its_last_line_is_half_written() -> None:
    data = samples("copilot-chat")[".config/Code/User/workspaceStorage/aa/chatSessions/v-2.jsonl"]
    split = runtime("copilot-chat").formats[0].split
    assert split is not None
    assert list(split(data + b'{"kind":2,"k":["requ')) == list(split(data))


def test_names_that_people_use_lead_to_the_programs() -> None:
    names = {"vscode": "copilot-chat", "Claude.ai": "claude-ai", "clawdbot": "openclaw", "TRAE": "traex"}
    assert {name: canonical(name) for name in names} == names
