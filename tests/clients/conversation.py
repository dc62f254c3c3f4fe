"""A conversation with a real client: what a target has to be told of it is what the client's own resume tells.

The folder has spaces and an accent and is reached by a link. A kind of conversation says what happens in it (`talk`).
"""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from clients.abilities import ABILITIES, Abilities
from clients.clew_cli import Clew
from clients.drivers import Client, Place, Ran, run
from clients.model_server import SUMMARY, ModelServer, scripted
from clients.same_session import BESIDE, CONTEXT
from clients.told import Told, results_in_order
from clients.wire import Answer, Call, Item, Json, has_tools, seen

ENDLESS = "tail -f /dev/null"
# What clients say in the place of an answer that never came, or around a summary.
ADDED = (
    "No response requested.",
    "[The previous response was interrupted before it completed.]",
    "Got it. Thanks for the additional context!",
    "What did we do so far?",
    "Attached media from tool result:",
    "Attached image(s) from tool result:",
    "(attached media from previous tool call)",
)
# A picture in a request: how PNG, JPEG and WebP begin in base64.
PICTURES = re.compile(r"iVBORw0KGgo|/9j/4|UklGR")


class Resumed(NamedTuple):
    """What a resumed session tells the model, with how many pictures, and clew's report of what it carried."""

    told: list[Told]
    pictures: int
    fidelity: Any = None


class Conversation:
    """The conversation, captured. `prompts` are its prompts, `own` what the client's own resume tells the model."""

    kind: ClassVar[str]
    # What the report may say was dropped.
    may_drop: ClassVar[set[str]] = set()

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.abilities: Abilities = ABILITIES[client.runtime]
        self.place = place_in(folder, work_folder(folder))
        self.clew = Clew(folder / "store")
        self.prompts: list[str] = []
        self.native = ""
        self.talk()
        self.last = scripted("Last, go on.", Answer("Gone on."))
        # Captured first: Codex goes on in the original file, from a copy of its home, too.
        reports = self.clew.capture(self.place.home)
        assert [report.error for report in reports if report.error] == []
        self.session = self.clew.of_native(self.native)
        self._texts: list[str] = []
        self.own = self._told_by_itself(folder / "copy")

    def talk(self) -> None:
        """Have the conversation, turn by turn."""
        raise NotImplementedError

    def turn(
        self,
        prompt: str,
        *answers: Answer,
        typed: str = "{}",
        options: tuple[str, ...] = (),
        model: ModelServer | None = None,
    ) -> None:
        """A turn: the first starts the session, each other one resumes it. `typed` is what a person types of it."""
        prompt = scripted(prompt, *answers)
        self.prompts.append(prompt)
        with model or ModelServer() as serving:
            argv = [*self.argv(typed.format(prompt)), *options]
            ran = self.run(self.place, serving.url, argv).checked()
            self.native = self.native or self.client.native_id(ran)

    def run(self, place: Place, url: str, argv: list[str]) -> Ran:
        """Run the client with its abilities."""
        self.settle(place, url)
        options = [option.format(home=place.home) for option in self.abilities.options]
        return run([*argv, *options], cwd=place.cwd, env=self.environment(place, url), logs=place.logs)

    def settle(self, place: Place, url: str) -> None:
        self.client.settle(place, url)
        for name, text in self.abilities.files.items():
            put(place.home / name.lstrip("+"), text, is_added=name.startswith("+"))

    def environment(self, place: Place, url: str) -> dict[str, str]:
        return {**self.client.environment(place, url), **self.abilities.variables}

    def shell(self, command: str) -> Call:
        return Call(*self.client.call(command))

    def resume_in(self, target: Client, folder: Path) -> Resumed:
        """What a target tells its model of the conversation."""
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
            request = self._first(model)
        return Resumed(heard(seen(request), self._texts), len(PICTURES.findall(json.dumps(request))), resumed.fidelity)

    def argv(self, prompt: str) -> list[str]:
        if not self.native:
            return self.client.fresh(prompt)
        return self.client.headless(self.client.interactive_resume(self.native), prompt)

    def _told_by_itself(self, folder: Path) -> Resumed:
        """What the client's own resume tells, in a copy of its home."""
        copy = place_in(folder, self.place.cwd)
        shutil.rmtree(copy.home)
        shutil.copytree(self.place.home, copy.home, symlinks=True)
        with ModelServer() as model:
            self.run(copy, model.url, self.argv(self.last)).checked()
            request = self._first(model)
        items = seen(request)
        self._texts = [*self.prompts, SUMMARY, *_users(items, self.last)]
        told = heard(items, self._texts)
        return Resumed(once(told) if self.client.repeats_results else told, len(PICTURES.findall(json.dumps(request))))

    def _first(self, model: ModelServer) -> Json:
        [first, *_] = [request.body for request in model.requests if is_of(request.body, self.last)]
        return first


def heard(items: Sequence[Item], texts: Sequence[str]) -> list[Told]:
    """What a request tells the model: these texts of the user wherever they are, in order, as often as they are there.

    A text that is part of a longer one beside it is the longer one's.
    """
    told: list[Told] = []
    numbers: dict[str, int] = {}
    for item in items:
        if item.kind == "text" and (item.role == "user" or (item.role == "assistant" and SUMMARY in item.text)):
            told += [Told("user", text) for text in _found(item.text, texts)]
        elif item.kind == "text" and item.role == "assistant":
            told += [Told("assistant", item.text)] if item.text not in ADDED else []
        elif item.kind == "call":
            numbers[item.call] = len(numbers) + 1
            told.append(Told("call", name=item.name, arguments=item.arguments, number=numbers[item.call]))
        elif item.kind == "result":
            told.append(Told("result", item.text, number=numbers.get(item.call, 0)))
    return results_in_order(told)


def essence(told: list[Told]) -> list[tuple[Any, ...]]:
    """What was said, without the names that each client has for its tools and arguments.

    Every client closes the call that was killed in its own words.
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
    ]


def once(told: list[Told]) -> list[Told]:
    """The same, each result once."""
    seen_before: set[int] = set()
    kept = []
    for one in told:
        if one.kind == "result" and one.number in seen_before:
            continue
        seen_before |= {one.number} if one.kind == "result" else set()
        kept.append(one)
    return kept


def is_of(body: Json, prompt: str) -> bool:
    """Whether a request is a main one, and tells this prompt."""
    texts = [item.text for item in seen(body) if item.kind == "text" and item.role == "user"]
    return has_tools(body) and any(prompt in text for text in texts)


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


def put(path: Path, text: str, *, is_added: bool) -> None:
    """Write a file, or add to one: members to an object of JSON, lines to other text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_added:
        before = path.read_text(encoding="utf-8")
        text = json.dumps({**json.loads(before), **json.loads(text)}) if path.suffix == ".json" else before + text
    path.write_text(text, encoding="utf-8")


def _users(items: Sequence[Item], last: str) -> list[str]:
    """The texts in the user's name, without what the client puts there of its own."""
    texts = []
    for item in items:
        if item.kind != "text" or item.role != "user" or CONTEXT.match(item.text):
            continue
        if item.text.strip() in ADDED:
            continue
        if last not in item.text and SUMMARY not in item.text:
            texts.append(BESIDE.sub("", item.text).strip())
    return [*filter(None, texts), last]


def _found(said: str, texts: Sequence[str]) -> list[str]:
    there = {text for text in texts if text in said}
    whole = [text for text in there if not any(text != longer and text in longer for longer in there)]
    at = [(match.start(), text) for text in whole for match in re.finditer(re.escape(text), said)]
    return [text for _, text in sorted(at)]


def _values(arguments: Any) -> list[str]:
    values = arguments.values() if isinstance(arguments, dict) else [arguments] if arguments is not None else []
    return sorted(value for value in values if isinstance(value, str) and value != "scripted")
