"""What starting costs: `import clew` and `clew --version` in a new process, against a bare Python.

The promise is 120 ms; as a ratio it is what 120 ms are to the start of a bare Python on this machine.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measure import Runner, race, seconds
from verdicts import Verdict, at_most

PROMISE_S = 0.120
PROGRAMS = {
    "bare": [sys.executable, "-c", "pass"],
    "import clew": [sys.executable, "-c", "import clew"],
    "clew --version": [str(Path(sys.executable).with_name("clew")), "--version"],
}


def startup(*, rounds: int) -> list[Verdict]:
    """Race the three."""
    figures = race([Runner(name=name, run=_starting(command)) for name, command in PROGRAMS.items()], rounds=rounds)
    bare = figures.pop("bare")
    return [
        at_most("start", f"{name}: bare Python", PROMISE_S / bare.median, clew=clew, other=bare)
        for name, clew in figures.items()
    ]


def _starting(command: list[str]) -> Callable[[], float]:
    return lambda: seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
