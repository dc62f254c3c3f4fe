"""A hard conversation with a real client: what a target has to be told of it is what the client's own resume tells.

The folder has spaces and an accent and is reached by a link; the calls are parallel, fail, write a file and read a
picture; one is killed with the client; one returns a megabyte.
"""

import base64
import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from clew.runtimes import runtime
from clients.clew_cli import Clew
from clients.drivers import Client, Place
from clients.model_server import ModelServer, scripted
from clients.told import Told, in_request
from clients.wire import Answer, Call, Item, seen

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MEGABYTE = "head -c 1000000 /dev/zero | tr '\\0' x"
# What a client reads pictures with, where that is no tool for reading files.
ENDLESS = "tail -f /dev/null"
# What clients say in the place of an answer that never came.
ADDED = ("No response requested.", "[The previous response was interrupted before it completed.]")
PICTURE_TOOLS = {"codex": "view_image"}
IMAGE = re.compile(r"image/(png|jpeg|webp)")


class Hard:
    """The conversation, captured. `prompts` are its prompts, `own` what the client's own resume tells the model."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.place = place_in(folder, work_folder(folder))
        self.clew = Clew(folder / "store")
        (self.place.cwd / "picture one.png").write_bytes(PICTURE)
        self.prompts = [
            scripted("First, in parallel.", Answer("Look.", self._parallel()), Answer("Three.")),
            scripted("Second, a file.", *(Answer("", (call,)) for call in self._files()), Answer("Written.")),
            scripted("Third, a lot.", Answer("", (self._shell(MEGABYTE),)), Answer("That was much.")),
        ]
        with ModelServer() as model:
            ran = client.start(self.place, model.url, self.prompts[0]).checked()
            self.native = client.native_id(ran)
            for prompt in self.prompts[1:]:
                client.resume(self.place, model.url, self.native, prompt).checked()
            self._kill(model)
        self.last = scripted("Last, go on.", Answer("Gone on."))
        # Captured first: Codex goes on in the original file, from a copy of its home, too.
        reports = self.clew.capture(self.place.home)
        assert [report.error for report in reports if report.error] == []
        self.session = max(reports, key=lambda report: report.records).session
        self.own, self.own_images = self._told_by_itself(folder / "copy")

    def resume_in(self, target: Client, folder: Path) -> tuple[list[Told], int, Any]:
        """What a target tells its model of the conversation, with how many pictures, and the report."""
        place = place_in(folder, self.place.cwd)
        shutil.copytree(self.clew.store, folder / "store")
        with ModelServer() as model:
            target.settle(place, model.url)
            environment = target.environment(place, model.url)
            resumed = Clew(folder / "store").resume_in(self.session, target.runtime, cwd=place.cwd, env=environment)
            for step in resumed.prepare:
                target.run(place, model.url, step, more=resumed.env).checked()
            command = target.headless(resumed.command, self.last)
            target.run(place, model.url, command, more=resumed.env).checked()
            return *self._told(model), resumed.fidelity

    def _told_by_itself(self, folder: Path) -> tuple[list[Told], int]:
        """What the client's own resume tells, in a copy of its home."""
        copy = place_in(folder, self.place.cwd)
        shutil.rmtree(copy.home)
        shutil.copytree(self.place.home, copy.home, symlinks=True)
        with ModelServer() as model:
            self.client.resume(copy, model.url, self.native, self.last).checked()
            told, images = self._told(model)
        return (_once(told) if self.client.repeats_results else told), images

    def _told(self, model: ModelServer) -> tuple[list[Told], int]:
        [first, *_] = [request for request in model.requests if _is_of(request.body, self.last)]
        pictures = len(IMAGE.findall(json.dumps(first.body)))
        return in_request(seen(first.body), [*self.prompts, self.last]), pictures

    def _kill(self, model: ModelServer) -> None:
        """A turn whose call is killed together with the client."""
        prompt = scripted("Fourth, too slow.", Answer("Wait.", (self._shell(ENDLESS),)), Answer("Never said."))
        self.prompts.append(prompt)
        client = self.client
        argv = client.headless(client.interactive_resume(self.native), prompt)
        client.settle(self.place, model.url)
        with (self.place.logs / "killed").open("wb") as log:
            program = subprocess.Popen(
                argv, cwd=self.place.cwd, env=client.environment(self.place, model.url), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            try:
                _until(lambda: any(_is_of(request.body, prompt) for request in model.requests))
                _until(lambda: _runs_below(program.pid, ENDLESS))
            finally:
                _end_with_children(program)

    def _shell(self, command: str) -> Call:
        return Call(*self.client.call(command))

    def _parallel(self) -> tuple[Call, ...]:
        return tuple(
            self._shell(command) for command in ("printf 'ä 1'", "sh -c 'echo bröken; exit 3'", "printf 'c 3'")
        )

    def _files(self) -> list[Call]:
        """A call that writes a file, and one that reads a picture."""
        tools, name = runtime(self.client.runtime).tools, self.client.runtime
        picture = str(self.place.cwd.resolve() / "picture one.png")
        if name in PICTURE_TOOLS:
            written = self._shell("printf 'höllo\\n' > 'a file.txt'")
            return [written, Call(PICTURE_TOOLS[name], {"path": picture})]
        write, read = tools["write"], tools["read"]
        path = str(self.place.cwd.resolve() / "a file.txt")
        content = {write.arguments["path"]: path, write.arguments["content"]: "höllo\n"}
        return [Call(write.name, content), Call(read.name, {read.arguments["path"]: picture})]


def work_folder(folder: Path) -> Path:
    """A folder with spaces and an accent, by a link to it."""
    real = folder / "wörk of àda"
    real.mkdir(parents=True)
    link = folder / "a link"
    link.symlink_to(real)
    return link


def place_in(folder: Path, cwd: Path) -> Place:
    place = Place(folder)
    place.cwd = cwd
    return place


def essence(told: list[Told]) -> list[tuple[Any, ...]]:
    """What was said, without the names that each client has for its tools and arguments.

    Every client closes the call that was killed in its own words, and some add an answer that nobody gave.
    """
    killed = next((one.number for one in told if one.kind == "call" and ENDLESS in _values(one.arguments)), 0)
    return [
        (
            one.kind,
            "killed" if one.kind == "result" and one.number == killed else one.text,
            one.number,
            _values(one.arguments),
        )
        for one in told
        if one.kind != "assistant" or one.text not in ADDED
    ]


def _values(arguments: Any) -> list[str]:
    values = arguments.values() if isinstance(arguments, dict) else [arguments] if arguments is not None else []
    return sorted(value for value in values if isinstance(value, str) and value != "scripted")


def _once(told: list[Told]) -> list[Told]:
    seen_before: set[int] = set()
    kept = []
    for one in told:
        if one.kind == "result" and one.number in seen_before:
            continue
        seen_before |= {one.number} if one.kind == "result" else set()
        kept.append(one)
    return kept


def _is_of(body: dict[str, Any], prompt: str) -> bool:
    items: list[Item] = seen(body)
    texts = [item.text for item in items if item.kind == "text" and item.role == "user"]
    return bool(body.get("tools")) and any(prompt in text for text in texts)


def _until(is_so: Any, seconds: float = 60) -> None:
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
    import os
    from contextlib import suppress

    children = _children(program.pid)
    program.kill()
    program.wait()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
