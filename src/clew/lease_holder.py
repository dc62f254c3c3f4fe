"""The name under which this process holds leases; and whether the process behind such a name has ended.

A name ends with `#<process>.<start>.<number>@<kernel>`: the start distinguishes a process from a later one with the
same number, the kernel from a process of another machine, container, or boot. Only the end of a process of the same
kernel can be known; a lease that is held elsewhere runs out.
"""

import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

from clew.model.ids import new_id

PROC = Path("/proc")
NAME = re.compile(r"#(?P<process>\d+)\.(?P<start>\d+)\.[0-9a-z]+@(?P<kernel>[0-9a-f]{12})$")
# Where proc(5) has the state and the start time, counted from behind the name of the program.
STATE, START = 0, 19
ENDED = ("Z", "X")


def new_holder(principal: str) -> str:
    """A name for one writer of this process; without the process where the system does not show it."""
    stat = _stat(os.getpid())
    if stat is None or not _kernel():
        return f"{principal}#{new_id()[:8]}"
    return f"{principal}#{os.getpid()}.{stat[START]}.{new_id()[:8]}@{_kernel()}"


def has_ended(holder: str) -> bool:
    """Whether the process of this name has ended for certain."""
    name = NAME.search(holder)
    if name is None or name["kernel"] != _kernel():
        return False
    stat = _stat(int(name["process"]))
    return stat is None or stat[START] != name["start"] or stat[STATE] in ENDED


def _stat(process: int) -> list[str] | None:
    """The fields of /proc/PROCESS/stat from the state on; None if the process does not exist."""
    try:
        text = (PROC / str(process) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program is in parentheses and may hold anything, a parenthesis too.
    return text.rpartition(")")[2].split()


@cache
def _kernel() -> str:
    """This boot of this machine and this view of its processes, as one word; empty where they are hidden."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return sha256(f"{boot} {os.readlink(PROC / 'self/ns/pid')}".encode()).hexdigest()[:12]
    except OSError:
        return ""
