"""Three further hard conversations: with helpers, compacted, and with a megabyte in each turn."""

from typing import ClassVar

from clients.compaction import TOKENS, compact
from clients.conversation import Conversation
from clients.hard import MEGABYTE
from clients.model_server import ModelServer, scripted
from clients.wire import TOKENS_IN, Answer, Call

LONG = "for i in 1 2 3 4 5 6 7 8 9; do printf 'line %s, which has to be summed up one day, and so on\\n' $i; done"


class Aided(Conversation):
    """Calls of an MCP server, a slash command, a skill and a subagent, as far as the client has them."""

    kind = "aided"
    # Copilot CLI writes them into the session of the agent that asked.
    may_drop: ClassVar = {"messages of subagents"}

    def talk(self) -> None:
        has = self.abilities
        looked = [("öffnen", "missing"), ("blocks",), ("picture",)] if has.mcp else []
        calls = [Answer("", tuple(Call(str(has.mcp), {"word": word}) for word in words)) for words in looked]
        self.turn("First, look up.", *calls, Answer("Looked up."))
        if has.command:
            self.turn("Ada", Answer("Hello Ada."), typed=has.command, options=has.command_options)
        if isinstance(has.skill, Call):
            self.turn("Weigh it.", Answer("", (has.skill,)), Answer("Weighed."))
        elif has.skill:
            self.turn("Weigh it.", Answer("Weighed."), typed=has.skill)
        if has.subagent:
            task = scripted("Count.", Answer("Counting.", (self.shell("printf 'one two'"),)), has.ends)
            self.turn("Have it counted.", *(Answer("", (call,)) for call in has.subagent(task)), Answer("Counted."))


class Compacted(Conversation):
    """A compaction between two turns, and a turn after it: what came before is only what the client still sends."""

    kind = "compacted"

    def talk(self) -> None:
        tokens = TOKENS.get(self.client.runtime, TOKENS_IN)
        calls = [self.shell(LONG), self.shell("printf two")]
        for number, call in zip(("First", "Second"), calls, strict=True):
            answers = (Answer(f"{number} look.", (call,)), Answer(f"{number} döne."))
            self.turn(f"{number}.", *answers, model=ModelServer(tokens=tokens))
        compact(self)
        self.turn("Fourth.", Answer("", (self.shell("printf four"),)), Answer("Fourth döne."))


class Large(Conversation):
    """A result of a megabyte in the first, a middle and the last turn."""

    kind = "large"

    def talk(self) -> None:
        for number in ("First", "Second", "Third"):
            calls = (self.shell(f"{MEGABYTE}; echo {number}"), self.shell(f"printf {number}"))
            self.turn(f"{number}, a lot.", *(Answer("", (call,)) for call in calls), Answer(f"{number} was much."))
