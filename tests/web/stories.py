"""The sample files of each program in a store, captured by the real readers."""

from pathlib import Path

from clew.client import Plane
from clew.local import Local
from clew.service import Context
from support.samples import samples

PROGRAMS = ("claude-code", "codex", "opencode", "gemini-cli", "copilot-cli", "pi", "qwen-code")


def capture_samples(context: Context, folder: Path) -> None:
    """Capture the sample files of each program, as they lie in a home."""
    for program in PROGRAMS:
        for name, data in samples(program).items():
            path = folder / program / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        paths = [str(folder / program)]
        list(Plane(Local(context)).capture(paths, runtime=program))
