"""A large log: many short sessions over a year, with words as often as in real text. Written past the usual door."""

import json
import random
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate

from clew.store import Store
from clew.store.log.opening import Opening, open_in

EVENTS = 10
START = 1_763_000_000_000_000
YEAR_US = 365 * 86_400_000_000
RUNTIMES = ("claude-code", "codex", "opencode", "gemini-cli", "cursor")
VOWELS, CONSONANTS = "aeiou", "bcdfghjklmnprstvwz"


class Speech:
    """Words that occur as those of a language do: the n-th most common one 1/n as often as the most common."""

    def __init__(self, size: int = 20_000) -> None:
        chance = random.Random(3)
        self.words = sorted(
            {
                "".join(chance.choice(CONSONANTS) + chance.choice(VOWELS) for _ in range(chance.randint(1, 4)))
                for _ in range(size * 3)
            }
        )
        chance.shuffle(self.words)
        self.words = self.words[:size]
        self._sums = list(accumulate(1 / (n + 10) for n in range(len(self.words))))

    def say(self, chance: random.Random, count: int) -> str:
        top = self._sums[-1]
        return " ".join(self.words[bisect(self._sums, chance.random() * top)] for _ in range(count))


def fill(store: Store, sessions: int, *, progress: Callable[[int], None]) -> int:
    """Write sessions of ten events each; returns the bytes of their texts. Every hundredth has a word of its own."""
    chance, speech, size = random.Random(5), Speech(), 0
    for first in range(0, sessions, 1000):
        with store.database.write() as tx:
            moves, events = [], []
            for number in range(first, min(first + 1000, sessions)):
                at = START + number * (YEAR_US // sessions) + chance.randrange(1_000_000)
                runtime = RUNTIMES[number % 5]
                project = f"project{number % 40}"
                opening = Opening(
                    id=f"{number:020d}", project=project, agent=f"agent{number % 13}", title=speech.say(chance, 6),
                    metadata=json.dumps({"runtime": runtime, "machine": f"m{number % 7}"}),
                )  # fmt: skip
                one = open_in(tx, opening, "").session
                key = one.project_key
                texts = _texts(chance, speech, number)
                for seq, (kind, body, text) in enumerate(texts, 1):
                    size += len(text)
                    events.append(
                        (key, one.key, seq, kind, 1, at + seq * 7_000_000, at + seq * 7_000_000, "person:ada",
                         f"s{seq}", bytes(32), json.dumps(body), None)
                    )  # fmt: skip
                moves.append(("active", EVENTS, bytes(32), at, None, None, 0, 0, key, one.key, 0, 0, 0, None))
            tx.append(moves, events)
        progress(min(first + 1000, sessions))
    return size


def needle(number: int) -> str:
    return f"needle{number:06d}"


def _texts(chance: random.Random, speech: Speech, number: int) -> list[tuple[str, dict[str, object], str]]:
    found: list[tuple[str, dict[str, object], str]] = []
    title = speech.say(chance, 6)
    found.append(("session_opened", {"agent": f"agent{number % 13}", "title": title}, title))
    for turn in range(3):
        asked = speech.say(chance, 30) + (f" {needle(number)}" if turn == 1 and number % 100 == 0 else "")
        ran = speech.say(chance, 12)
        gave = speech.say(chance, 120)
        usage = {"input": chance.randrange(9000), "output": chance.randrange(900)}
        path = f"/home/me/app{number % 40}/src/{speech.say(chance, 1)}.py"
        call = f"c{turn}"
        found += [
            ("message_added", {"role": "user", "text": asked}, asked),
            ("call_made", {"call": call, "tool": "Read", "input": {"file_path": path, "why": ran}, "usage": usage,
                           "model": "claude-sonnet-4-5", "message": f"msg_{number:012d}_{turn}"}, f"Read {path} {ran}"),
            ("call_returned", {"call": call, "output": gave, "failed": chance.random() < 0.05}, gave),
        ]  # fmt: skip
    return found
