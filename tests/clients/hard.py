"""A hard conversation: parallel calls of which one fails, edits, a picture, a megabyte, and a call that is killed.

The client is killed with the call.
"""

import base64
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from clew.runtimes import runtime
from clients.conversation import ENDLESS, Conversation, is_of
from clients.model_server import ModelServer, scripted
from clients.wire import Answer, Call, Json

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MEGABYTE = "head -c 1000000 /dev/zero | tr '\\0' x"
PATCH = """\
apply_patch <<'EOF'
*** Begin Patch
*** Update File: a file.txt
@@
-höllo
+hüllo
*** End Patch
EOF"""


class Hard(Conversation):
    kind = "hard"

    def talk(self) -> None:
        (self.place.cwd / "picture one.png").write_bytes(PICTURE)
        self.turn("First, in parallel.", Answer("Look.", self._parallel()), Answer("Three."))
        self.turn("Second, a file.", *(Answer("", (call,)) for call in self._files()), Answer("Written."))
        assert (self.place.cwd / "a file.txt").read_text() == "hüllo\n"
        self.turn("Third, a lot.", Answer("", (self.shell(MEGABYTE),)), Answer("That was much."))
        self._killed_turn()

    def _killed_turn(self) -> None:
        """A turn whose call is killed together with the client."""
        prompt = scripted("Fourth, too slow.", Answer("Wait.", (self.shell(ENDLESS),)), Answer("Never said."))
        self.prompts.append(prompt)
        argv = self.argv(prompt)
        with ModelServer() as model, (self.place.logs / "killed").open("wb") as log:
            self.settle(self.place, model.url)
            program = subprocess.Popen(
                argv, cwd=self.place.cwd, env=self.environment(self.place, model.url), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            try:
                _until(lambda: any(is_of(request.body, prompt) for request in model.requests))
                _until(lambda: _runs_below(program.pid, ENDLESS))
            finally:
                _end_with_children(program)

    def _parallel(self) -> tuple[Call, ...]:
        return tuple(self.shell(command) for command in ("printf 'ä 1'", "sh -c 'echo bröken; exit 3'", "printf 'c 3'"))

    def _files(self) -> list[Call]:
        """A call that writes a file, one that edits it, and one that reads a picture."""
        picture, path = (str(self.place.cwd.resolve() / name) for name in ("picture one.png", "a file.txt"))
        if self.client.runtime == "codex":
            # It has no tools for files, but recognises a patch in its shell.
            written = self.shell("printf 'höllo\\n' > 'a file.txt'")
            return [written, self.shell(PATCH), Call("view_image", {"path": picture})]
        tools = runtime(self.client.runtime).tools
        write, edit, read = tools["write"], tools["edit"], tools["read"]
        content = {write.arguments["path"]: path, write.arguments["content"]: "höllo\n"}
        change: Json = {edit.arguments["old"]: "höllo", edit.arguments["new"]: "hüllo"}
        if self.client.runtime == "pi":
            change = {"edits": [change]}
        edited = {edit.arguments["path"]: path, **change}
        if self.client.runtime == "gemini-cli":
            edited["instruction"] = "scripted"
        return [Call(write.name, content), Call(edit.name, edited), Call(read.name, {read.arguments["path"]: picture})]


def _until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it never came so far"
        time.sleep(0.05)


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(path.parent.name)
            found += [child, *_children(child)]
    return found


def _runs_below(pid: int, command: str) -> bool:
    for child in _children(pid):
        try:
            line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if line.strip() == command:
            return True
    return False


def _end_with_children(program: "subprocess.Popen[bytes]") -> None:
    children = _children(program.pid)
    program.kill()
    program.wait()
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
