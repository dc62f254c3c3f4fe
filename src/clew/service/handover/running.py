"""Whether an agent program runs in a folder at this moment, as far as the system says it (Linux).

Two programs that have one session open write into one file without knowing of each other: nothing is lost, but the
conversation gets two branches, and each program tells its llm only its own.
"""

import os

from clew.runtimes.contract import Runtime

# The program is the executable, or the script that an interpreter runs.
_WORDS = 2


def running_in(program: Runtime, directory: str) -> int | None:
    """The id of the oldest process of this program that works in this directory; None if there is none."""
    try:
        ids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    except OSError:
        return None
    return next((id for id in ids if _is_of(id, program.binary, directory)), None)


def _is_of(id: int, binary: str, directory: str) -> bool:
    try:
        if os.readlink(f"/proc/{id}/cwd") != directory:
            return False
        with open(f"/proc/{id}/cmdline", "rb") as file:
            words = os.fsdecode(file.read(4096)).split("\0")
    except OSError:  # It has ended, or belongs to another person.
        return False
    return any(os.path.basename(word) == binary for word in words[:_WORDS])


def note_of_running(program: Runtime, directory: str) -> list[str]:
    """What a person has to know before going on with a session that may be open."""
    id = running_in(program, directory)
    if id is None:
        return []
    return [
        f"{program.title} runs in {directory} (process {id}); if this session is open there, go on there or leave it "
        "first: two programs that write one session make two branches of it"
    ]
