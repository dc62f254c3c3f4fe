"""A corpus of Claude Code sessions, made up but shaped like real ones: `transcripts.py FOLDER [SESSIONS]`."""

import json
import random
import sys
import uuid
from pathlib import Path

MESSAGES = 100
WORDS = [
    f"{a}{b}" for a in ("ta", "re", "mo", "li", "ku", "ven", "so", "pra", "di", "ne") for b in
    ("na", "ring", "tor", "sk", "lem", "vo", "pth", "ce", "dan", "fi", "gro", "hu")
]  # fmt: skip


def text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def session(chance: random.Random, number: int, messages: int = MESSAGES) -> tuple[str, str]:
    """The id of a session, and its lines."""

    def new() -> str:
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))

    id, parent, lines = new(), None, []
    for i in range(messages):
        own, when = new(), f"2026-11-{15 + i // 1440}T{i // 60 % 24:02d}:{i % 60:02d}:00.000Z"
        user = i % 2 == 0
        content: object
        if user and i % 4 == 2:
            content = [{"type": "tool_result", "tool_use_id": f"toolu_{number}_{i - 1}", "content": text(chance, 140)}]
        elif user:
            content = text(chance, 60) + (f" needle{number:05d}" if i == 40 else "")
        elif i % 4 == 1:
            call = {"command": text(chance, 40), "description": text(chance, 8)}
            content = [{"type": "tool_use", "id": f"toolu_{number}_{i}", "name": "Bash", "input": call}]
        else:
            content = [{"type": "text", "text": text(chance, 160)}]
        message: dict[str, object] = {"role": "user" if user else "assistant", "content": content}
        if not user:
            usage = {"input_tokens": chance.randrange(1000, 9000), "output_tokens": chance.randrange(20, 900)}
            message |= {"id": f"msg_{number}_{i}", "type": "message", "model": "claude-opus-5-5", "usage": usage}
        lines.append(
            json.dumps({
                "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": f"/home/me/app{number % 20}",
                "sessionId": id, "version": "2.1.325", "gitBranch": "main", "type": message["role"],
                "message": message, "uuid": own, "timestamp": when,
            })
        )  # fmt: skip
        parent = own
    return id, "\n".join(lines) + "\n"


def make(folder: Path, sessions: int, *, long: int = 0) -> int:
    """Write the corpus below `folder` as Claude Code would; returns its bytes.

    With `long` there is one more session, of so many messages, which is the one with the latest activity.
    """
    chance = random.Random(7)
    size = 0
    for number in range(sessions + (long > 0)):
        id, lines = session(chance, number, MESSAGES if number < sessions else long)
        place = folder / f"-home-me-app{number % 20}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{id}.jsonl").write_text(lines)
        size += len(lines)
    return size


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000))
