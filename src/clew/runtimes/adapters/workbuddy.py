"""WorkBuddy (Tencent): `~/.workbuddy/projects/<folder>/<id>.jsonl`, with the items of CodeBuddy Code.

Evidence: tests of public readers (agentsview and others), 2026-11-19. No real file, not run.
"""

from pathlib import PurePath

from clew.runtimes.adapters import codebuddy
from clew.runtimes.adapters.message_bodies import Chat
from clew.runtimes.contract import Format, Runtime


def recognises(path: PurePath, head: bytes) -> bool:
    return ".workbuddy" in path.parts and codebuddy.is_items(path, head)


RUNTIME = Runtime(
    name="workbuddy",
    title="WorkBuddy",
    home=".workbuddy",
    home_variable="WORKBUDDY_CONFIG_DIR",
    formats=(
        Format(
            name="items",
            patterns=("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl"),
            recognises=recognises,
            identify=codebuddy.identify,
            read=codebuddy.read,
            state=Chat,
        ),
    ),
    tools=codebuddy.TOOLS,
    evidence="public tests, not run",
)
