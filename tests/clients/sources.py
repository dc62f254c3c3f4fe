"""A session made by a real client: two turns with real tool calls, captured into a store of its own."""

from pathlib import Path

from clients.clew_cli import Captured, Clew
from clients.drivers import Client, OpenCode, Place
from clients.model_server import ModelServer, scripted
from clients.told import Told, in_request
from clients.wire import Answer, Call, Item

# Texts that a careless conversion spoils.
LOOK = 'Let me lôok 👀 at "it" \\ <b>&amp;</b>:\n`code`, and a second line.'
DONE_ONE = "Dōne, 世界."
DONE_TWO = "It br○ke, as it should 🧶."
DONE_THREE = "Gone on."


def first_prompt(client: Client) -> str:
    """A turn of three requests: a text with a call, two parallel calls, a text."""
    return scripted(
        "First prompt: Grüße, 世界 🧵; it's here.",
        Answer(LOOK, (_call(client, "printf 'alpha ✓ \"one\" \\\\ <x>\\n'"),)),
        Answer("", (_call(client, "printf 'bēta 2\\n'"), _call(client, "printf 'gamma 3\\n'"))),
        Answer(DONE_ONE),
    )


def second_prompt(client: Client) -> str:
    """A turn whose call fails."""
    return scripted(
        "Second prompt, about what fails.",
        Answer("", (_call(client, "sh -c 'echo bröken 4; exit 3'"),)),
        Answer(DONE_TWO),
    )


def third_prompt(client: Client) -> str:
    """The turn that goes on in another client."""
    return scripted(
        "Third prompt, elsewhere 🚪.", Answer("", (_call(client, "printf 'delta 5\\n'"),)), Answer(DONE_THREE)
    )


def _call(client: Client, command: str) -> Call:
    return Call(*client.call(command))


class Source:
    """A client's session of two turns, the second by the client's own resume.

    `told` is what was said, as the model saw it happen; `resumed_with` what the model was told when the second turn
    began; `originals` the client's files, by name.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.place = Place(folder)
        self.clew = Clew(folder / "store")
        self.prompts = [first_prompt(client), second_prompt(client)]
        self.seconds: list[float] = []
        self.told: list[Told] = []
        self.resumed_with: list[Told] = []
        self.native = self._first_turn()
        client.pass_time(self.place, self.native)
        self._second_turn()
        self.originals = self._originals()
        self.captured: list[Captured] = []
        self.session = ""

    def capture(self) -> None:
        """Take the client's home into the store."""
        self.captured = self.clew.capture(self.place.home)
        self.session = max(self.captured, key=lambda report: report.records).session

    def _first_turn(self) -> str:
        with ModelServer() as model:
            ran = self.client.start(self.place, model.url, self.prompts[0]).checked()
            self.told += turn(model.told(self.prompts[0])[-1], self.prompts[0], DONE_ONE)
        self.seconds.append(ran.seconds)
        return self.client.native_id(ran)

    def _second_turn(self) -> None:
        with ModelServer() as model:
            ran = self.client.resume(self.place, model.url, self.native, self.prompts[1]).checked()
            requests = model.told(self.prompts[1])
        self.resumed_with = in_request(requests[0], self.prompts)
        self.told += renumbered(turn(requests[-1], self.prompts[1], DONE_TWO), after=self.told)
        self.seconds.append(ran.seconds)

    def _originals(self) -> dict[str, bytes]:
        if isinstance(self.client, OpenCode):
            with ModelServer() as model:
                exported = self.client.export(self.place, model.url, self.native).checked()
            return {f"{self.native}.json": exported.out.encode()}
        return {path.name: path.read_bytes() for path in self.client.session_files(self.place.home, self.native)}


def turn(items: list[Item], prompt: str, last: str) -> list[Told]:
    """What was said in a turn: its last request from the prompt on, and the answer to it."""
    return [*in_request(items, [prompt]), Told("assistant", last)]


def renumbered(told: list[Told], *, after: list[Told]) -> list[Told]:
    """A later turn, its calls counted on from those before."""
    count = sum(one.kind == "call" for one in after)
    return [one._replace(number=one.number + count) if one.number else one for one in told]
