"""Run git so that nothing of a repository runs with it: no hook, filter, monitor, pager, helper or transport.

Whoever made a repository wrote its configuration, and git runs commands that stand there. So only plumbing commands are
run, which neither compare nor write files, and every setting that names a command is overridden. git takes no lock for
reading, asks nothing, and reaches no other machine.
"""

import os
import shutil
import subprocess
from typing import NamedTuple

from clew.model.errors import Conflict, Unavailable
from clew.model.file_tree import shown
from clew.model.plain import plain

SECONDS = 120
SAFE = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "false",
    "core.alternateRefsCommand": "true",
    "credential.helper": "",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
KEPT = ("PATH", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "TMPDIR", "SYSTEMROOT")
MISSING = "git is not installed, or not on the PATH"


class Git(NamedTuple):
    """git in one folder."""

    folder: bytes

    def __call__(self, *arguments: str | bytes, input: bytes = b"") -> bytes:
        """What git prints; `Conflict` with its own words if it refuses, `Unavailable` if it cannot be run."""
        done = self._run(arguments, input)
        if done.returncode:
            said = plain((done.stderr or done.stdout).decode("utf-8", "replace").strip())[:400]
            command = next((os.fsdecode(word) for word in arguments if not os.fsdecode(word).startswith("-")), "")
            raise Conflict(f"git {command} in {shown(self.folder)} refused: {said}", folder=shown(self.folder))
        return done.stdout

    def text(self, *arguments: str | bytes) -> str:
        """What git prints, as text."""
        return os.fsdecode(self(*arguments)).strip("\n")

    def accepts(self, *arguments: str | bytes) -> bool:
        """Whether git ends without an error."""
        return self._run(arguments, b"").returncode == 0

    def _run(self, arguments: tuple[str | bytes, ...], input: bytes) -> "subprocess.CompletedProcess[bytes]":
        settings = [word for name, value in SAFE.items() for word in ("-c", f"{name}={value}")]
        program = shutil.which("git")
        # A relative path would run what lies in the folder.
        if program is None or not os.path.isabs(program):
            raise Unavailable(MISSING)
        try:
            return subprocess.run(
                [program, "--no-pager", "--no-replace-objects", "--literal-pathspecs", *settings, *arguments],
                cwd=self.folder, env=_environment(), input=input, capture_output=True, check=False, timeout=SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"git cannot be run in {shown(self.folder)}: {error}") from error


def _environment() -> dict[str, str]:
    """Nothing of the caller's that names another repository, or a command."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
    }
