"""OpenClaw: `~/.openclaw/agents/<agent>/sessions/<id>.jsonl`, in the form of pi's sessions; once called Clawdbot.

Evidence: sample files of two public projects (agent-sessions, cross_agent_session_resumer), 2026-11-19. Not run.
"""

import re
from pathlib import PurePath

import msgspec

from clew.model.events import Draft, Rewound
from clew.runtimes.adapters import pi
from clew.runtimes.adapters.renamed import renamed
from clew.runtimes.contract import Format, Identity, Reading, Runtime, Tool

FOLDERS = (".openclaw", ".clawdbot", ".moltbot")


def recognises(path: PurePath, head: bytes) -> bool:
    """Whether a session of pi's form is OpenClaw's: its folder or its own entries say so."""
    first = head.split(b"\n", 1)[0]
    named = any(folder in path.parts for folder in FOLDERS) or b"openclaw" in head
    # pi's version is a number.
    return pi.recognises(path, head) and (named or re.search(rb'"version":\s*"', first) is not None)


def read(record: bytes, key: str, reading: Reading[pi.State]) -> list[Draft]:
    """One entry. Versions that named no parents have no branches."""
    drafts = _read(record, key, reading)
    return drafts if b'"parentId"' in record else [draft for draft in drafts if not isinstance(draft.body, Rewound)]


_read = renamed(pi.read, pi.NAME)


def identify(path: PurePath, first: bytes) -> Identity:
    """pi's identity, with the agent that the folder names."""
    folders = path.parts
    agent = folders[folders.index("agents") + 1] if "agents" in folders[:-2] else ""
    return msgspec.structs.replace(pi.identify(path, first), agent="" if agent == "main" else agent)


RUNTIME = Runtime(
    name="openclaw",
    title="OpenClaw",
    home="",
    binary="openclaw",
    formats=(
        Format(
            name="lines",
            patterns=tuple(f"{folder}/agents/*/sessions/*.jsonl" for folder in FOLDERS),
            recognises=recognises,
            identify=identify,
            read=read,
            state=pi.State,
        ),
    ),
    tools={"shell": Tool("exec", {"command": "command"})},
    evidence="public files, not run",
)
