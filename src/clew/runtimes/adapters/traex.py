"""TRAE CLI ("TraeX", ByteDance): rollouts in the form of Codex, below `~/.trae/cli`; `traecli` is a fork of Codex.

Evidence: a sample file and the notes of a public project (agentsview), 2026-11-19. Not run.
"""

import re
from pathlib import PurePath

from clew.runtimes.adapters import codex
from clew.runtimes.adapters.renamed import renamed
from clew.runtimes.contract import Format, Runtime

_PROVIDER = re.compile(rb'"model_provider":\s*"trae"|"You are TRAE CLI')


def recognises(path: PurePath, head: bytes) -> bool:
    """Whether a rollout of Codex's form is TRAE's: its folder or its first record says so."""
    first = head.lstrip().partition(b"\n")[0]
    return codex.recognises(path, head) and (".trae" in path.parts or _PROVIDER.search(first) is not None)


RUNTIME = Runtime(
    name="traex",
    title="TRAE CLI",
    home=".trae/cli",
    binary="traecli",
    formats=(
        Format(
            name="rollout",
            patterns=("sessions/**/rollout-*.jsonl", "archived_sessions/**/rollout-*.jsonl"),
            recognises=recognises,
            identify=codex.identify,
            read=renamed(codex.read, codex.NAME),
            state=codex.State,
        ),
    ),
    tools=codex.RUNTIME.tools,
    evidence="a public file, not run",
)
