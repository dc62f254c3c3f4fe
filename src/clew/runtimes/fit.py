"""Convert a conversation for another program, and report every change.

What a target cannot accept unchanged is either adapted, and the report says how, or dropped, and the report says why.
Events that were never part of the conversation stay in the log and are only counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from clew.model.conversation import SPOKEN, after_compaction, conversation, model_view
from clew.model.events import (
    CallMade,
    CallReturned,
    Event,
    FilePart,
    ImagePart,
    MessageAdded,
    Opaque,
    Part,
    Removed,
    RuntimeAttached,
    TextPart,
    ThinkingPart,
)
from clew.model.outline import Outline, OutlinedCall, whole_call, whole_part
from clew.runtimes.contract import Runtime, Tool, raw
from clew.runtimes.last_turns import LastTurns
from clew.runtimes.rehome import Rehoming
from clew.runtimes.rounds import Answer, Prompt, Results, Round, output_text, rounds, whole

if TYPE_CHECKING:
    from clew.runtimes.unsent import Reasons

# A token is about four characters of English or code; the estimate only decides whether to cut.
CHARACTERS_PER_TOKEN = 4
NO_RESULT = "[No result was recorded: the session ended before this call returned.]"
NO_BEGINNING = "[The beginning of this session was not recorded.]"
NOT_SHOWN = "[The earlier part of this session is not shown here.]"
# Why a body is removed. An erased event does not even keep its kind.
GONE = {"pruned": "removed by retention", "erased": "erased on request"}
POSSIBLY_SPOKEN = {*(body.kind for body in SPOKEN), "erased"}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of thing that could not be carried unchanged: how many, and why."""

    what: str
    count: int
    why: str


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """The report of a session converted for another program. `stayed` was not conversation and is only in the log."""

    carried: dict[str, int]
    adapted: list[Change] = []
    dropped: list[Change] = []
    stayed: dict[str, int] = {}


def in_words(count: int, name: str) -> str:
    """The count and the name, which is a plural; 1 takes the singular."""
    if count != 1:
        return f"{count:,} {name}"
    noun = name
    for word in (" of ", " before ", " without "):
        noun = noun.partition(word)[0]
    return f"1 {' or '.join(word.removesuffix('s') for word in noun.split(' and '))}{name.removeprefix(noun)}"


class Tally:
    """Counts what is adapted and dropped."""

    def __init__(self) -> None:
        self._adapted: Counter[tuple[str, str]] = Counter()
        self._dropped: Counter[tuple[str, str]] = Counter()

    def adapt(self, what: str, count: int, why: str) -> None:
        if count:
            self._adapted[what, why] += count

    def drop(self, what: str, count: int, why: str) -> None:
        if count:
            self._dropped[what, why] += count

    def add(self, *others: "Tally") -> None:
        for other in others:
            self._adapted += other._adapted
            self._dropped += other._dropped

    def drop_removed(self, events: list[Event], view: Callable[[list[Event]], list[Event]]) -> None:
        """Count the events that would be in this view if their bodies were not removed."""
        for how in {event.body.how: None for event in events if isinstance(event.body, Removed)}:
            with_them = [_as_if_present(event, how) for event in events]
            self.drop("events", len(view(with_them)) - len(view(events)), GONE.get(how, how))

    def fidelity(self, carried: dict[str, int], stayed: dict[str, int]) -> Fidelity:
        return Fidelity(
            carried={name: count for name, count in carried.items() if count},
            adapted=_changes(self._adapted),
            dropped=_changes(self._dropped),
            stayed=stayed,
        )


def _as_if_present(event: Event, how: str) -> Event:
    body = event.body
    if isinstance(body, Removed) and body.how == how and body.kind in POSSIBLY_SPOKEN:
        return msgspec.structs.replace(event, body=MessageAdded(role="user"))
    return event


def sides_of(events: list[Event], spoken: list[Event]) -> int:
    """The number of messages beside the conversation."""
    if not any(getattr(event.body, "side", "") for event in events):
        return 0
    return len(conversation(events, sides=True)) - len(spoken)


def opaque_of(events: list[Event]) -> dict[str, int]:
    """The number of verbatim records of each kind, which no other program can read."""
    return dict(Counter(event.kind for event in events if isinstance(event.body, Opaque)))


def counted(all_rounds: Iterable[Round]) -> Counter[str]:
    """The number of prompts, answers, calls and results in a conversation."""
    made = Counter[str]()
    for round in all_rounds:
        if isinstance(round, Prompt):
            made["prompts"] += 1
        elif isinstance(round, Results):
            made["results"] += len(round.returns)
        else:
            made["answers"] += any(isinstance(part, TextPart) for part in round.parts)
            made["calls"] += len(round.calls)
    return made


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    rounds: list[Round]
    fidelity: Fidelity


def fit(
    outline: Outline,
    target: Runtime,
    *,
    tools: dict[str, dict[str, Tool]],
    unsent: "Reasons | None" = None,
    rehoming: Rehoming | None = None,
    flatten: bool = False,
    brief: Callable[[], str] = str,
) -> Fitted:
    """The rounds of a session for a target. `tools` are the common tools of each runtime that the session ran in.

    `unsent` are the reasons that end an answer which the runtime does not send again. `brief` makes the text that
    replaces the turns for which the target has no room.
    """
    return _Fit(outline, target, tools, unsent or {}, rehoming, flatten=flatten, brief=brief).run()


class _Fit:
    """Decides on the outline, then reads the texts round by round and holds those of the last turns that fit."""

    def __init__(
        self,
        outline: Outline,
        target: Runtime,
        tools: dict[str, dict[str, Tool]],
        unsent: "Reasons",
        rehoming: Rehoming | None,
        *,
        flatten: bool,
        brief: Callable[[], str],
    ) -> None:
        self._outline = outline
        self._target = target
        self._unsent = unsent
        self._rehoming = rehoming
        self._flatten = flatten
        self._make_brief = brief
        self._brief = ""
        # For each program's own tool name: the common tool, and the common names of its arguments.
        self._common = {
            name: {
                tool.name: (common, {own: word for word, own in tool.arguments.items()}) for common, tool in of.items()
            }
            for name, of in tools.items()
        }
        self._tally = Tally()
        # Each step has its own tally, so that the report is in the order of the steps.
        self._tools_tally, self._parts_tally, self._pairs_tally = Tally(), Tally(), Tally()
        self._closed: set[str] = set()
        self._driven_by = _runtimes(outline.events)

    def run(self) -> Fitted:
        events = self._outline.events
        spoken = conversation(events)
        sides = sides_of(events, spoken)
        self._tally.drop("messages of subagents", sides, "they were said beside the conversation, not in it")
        self._tally.drop_removed(events, model_view)
        seen = after_compaction(spoken, events)
        covered = len(spoken) - len(seen)
        self._tally.adapt("messages before a compaction", covered, "the summary the session made stands for them")
        del spoken
        if any(self._unsent.values()):
            seen = self._sent(seen)
        last = self._last_that_fit(map(self._rehomed, self._written(self._paired(rounds(seen)))))
        self._tally.add(self._tools_tally, self._parts_tally, self._pairs_tally)
        if self._rehoming is not None:
            self._tally.adapt("paths", self._rehoming.count, "the project lives elsewhere now")
        why = f"the session is longer than the context of {self._target.title}"
        self._tally.adapt("results", last.shortened, f"shortened: {why}")
        self._tally.drop("turns", last.turns_before, why)
        kept = last.rounds
        carried = self._carried(kept)
        if self._flatten:
            kept = self._as_text(kept)
        kept = [*self._beginning(kept, is_cut=last.turns_before > 0), *kept]
        return Fitted(rounds=kept, fidelity=self._tally.fidelity(carried, opaque_of(events)))

    def _sent(self, spoken: list[Event]) -> list[Event]:
        from clew.runtimes.unsent import sent  # Few programs leave anything out.

        spoken, unsent = sent(spoken, self._outline.events, self._unsent)
        for what, count in unsent.items():
            self._tally.drop(what, count, "the session's own program does not send an answer that failed again")
        return spoken

    def _carried(self, kept: list[Round]) -> dict[str, int]:
        """What the target gets unchanged: not the notes that close calls, nor calls and results written as text."""
        carried = counted(kept)
        carried["results"] -= sum(
            back.call in self._closed for round in kept if isinstance(round, Results) for back in round.returns
        )
        as_text = ("calls", "results") if self._flatten else ()
        carried["thinking"] = sum(
            isinstance(part, ThinkingPart) for round in kept if isinstance(round, Answer) for part in round.parts
        )
        return {name: count for name, count in carried.items() if name not in as_text}

    def _rehomed(self, round: Round) -> Round:
        return round if self._rehoming is None else self._rehoming.round(round)

    def _written(self, paired: Iterable[Round]) -> Iterator[Round]:
        """The rounds with their texts, each as the target accepts it."""
        for round in paired:
            fitted = self._round(self._with_texts(round))
            if fitted is not None:
                yield fitted

    def _with_texts(self, round: Round) -> Round:
        read = self._outline.read
        if not isinstance(round, Answer):
            return round if self._outline.has_texts else whole(round, read)
        parts = (
            self._translated(part, whole_call(part, read)) if isinstance(part, CallMade) else whole_part(part, read)
            for part in round.parts
        )
        return msgspec.structs.replace(round, parts=tuple(parts))

    # Calls in the target's words --------------------------------------------------------------------------------------

    def _translated(self, outlined: CallMade, call: CallMade) -> CallMade:
        """A call with the target's names."""
        runtime = self._driven_by.get(outlined.seq, "") if isinstance(outlined, OutlinedCall) else ""
        return call if runtime == self._target.name else self._renamed(call, runtime)

    def _renamed(self, call: CallMade, runtime: str) -> CallMade:
        common, words = self._common.get(runtime, {}).get(call.tool, ("", {}))
        own = self._target.tools.get(common)
        if own is None:
            self._tools_tally.adapt(
                "calls of foreign tools", 1, f"{self._target.title} has no such tool; the name was kept"
            )
            return call
        values = msgspec.json.decode(call.input)
        if not isinstance(values, dict):
            return call
        named = {own.arguments.get(words.get(name, ""), name): value for name, value in values.items()}
        if (call.tool, list(values)) != (own.name, list(named)):
            self._tools_tally.adapt("tool names", 1, f"written as {self._target.title} names them")
        return msgspec.structs.replace(call, tool=own.name, input=raw(named))

    # Parts a target cannot take ---------------------------------------------------------------------------------------

    def _round(self, round: Round) -> Round | None:
        if isinstance(round, Results):
            return msgspec.structs.replace(round, returns=tuple(map(self._returned, round.returns)))
        if isinstance(round, Prompt):
            if round.role != "user":
                self._parts_tally.adapt(f"{round.role} messages", 1, "carried as the user's words")
            prompt = self._parts(round.parts)
            return msgspec.structs.replace(round, parts=prompt, role="user") if prompt else None
        answer = tuple(
            self._object(part) if isinstance(part, CallMade) else part
            for piece in self._with_thoughts_it_takes(round)
            for part in ([piece] if isinstance(piece, CallMade | ThinkingPart) else self._parts((piece,)))
        )
        return msgspec.structs.replace(round, parts=answer) if answer else None

    def _with_thoughts_it_takes(self, answer: Answer) -> list[Part | CallMade]:
        """The parts of an answer, without the thoughts that the target's provider would refuse."""
        writer = self._target.writer
        runtime = self._driven_by.get(int(answer.key), "") if answer.key.isdecimal() else ""
        takes = writer.takes_thought if writer and runtime == self._target.name and not self._flatten else None
        kept: list[Part | CallMade] = []
        for part in reversed(answer.parts):
            if not isinstance(part, ThinkingPart):
                kept.append(part)
            elif takes is None:
                self._parts_tally.drop("thinking", 1, self._why_no_thinking(runtime))
            elif not takes(part, answer.model):
                self._parts_tally.drop("thinking", 1, "it has no signature that its provider would accept")
            elif not kept:
                self._parts_tally.drop("thinking", 1, "nothing follows it, and a provider refuses that")
            else:
                kept.append(part)
        return kept[::-1]

    def _why_no_thinking(self, runtime: str) -> str:
        if runtime != self._target.name:
            return "its signature only holds for the provider that made it"
        if self._flatten:
            return "calls are written as text, and its signature only holds with the calls"
        return f"{self._target.title} does not take back what it wrote itself"

    def _returned(self, back: CallReturned) -> CallReturned:
        longest = self._target.writer.longest_result if self._target.writer is not None else None
        if longest is not None and len(bytes(back.output)) > longest:
            why = f"{self._target.title} itself cuts results of more than {longest:,} characters when it sends them"
            self._parts_tally.adapt("results", 1, why)
        if self._target.writer is not None and not self._target.writer.failures:
            failed = back.failed and back.call not in self._closed
            self._parts_tally.adapt("marks of failed calls", failed, f"{self._target.title} has none; the output tells")
        return msgspec.structs.replace(back, parts=self._parts(back.parts))

    def _parts(self, parts: tuple[Part, ...]) -> tuple[Any, ...]:
        return tuple(kept for part in parts if (kept := self._part(part)) is not None)

    def _part(self, part: Part) -> Part | None:
        if isinstance(part, ThinkingPart):
            self._parts_tally.drop("thinking", 1, "its signature only holds for the provider that made it")
            return None
        writer = self._target.writer
        if isinstance(part, ImagePart | FilePart) and not (isinstance(part, ImagePart) and writer and writer.images):
            self._parts_tally.adapt("images and files", 1, f"{self._target.title} gets a note in their place")
            return TextPart(text=f"[{part.media_type or 'file'} {part.name or part.blob[:12]}, kept in clew]")
        return None if isinstance(part, TextPart) and not part.text else part

    def _object(self, call: CallMade) -> CallMade:
        """The call with an object as its arguments, which every provider requires."""
        value = msgspec.json.decode(call.input)
        if isinstance(value, dict):
            return call
        self._parts_tally.adapt("arguments", 1, "arguments that were no object were put into one")
        return msgspec.structs.replace(call, input=raw({"input": value}))

    # Calls and results in pairs ---------------------------------------------------------------------------------------

    def _paired(self, unpaired: list[Round]) -> list[Round]:
        """Exactly one result after each call of an answer; every call has a unique id."""
        results: dict[str, list[CallReturned]] = {}
        at: dict[str, Results] = {}
        for round in unpaired:
            if isinstance(round, Results):
                for back in round.returns:
                    results.setdefault(back.call, []).append(back)
                    at.setdefault(back.call, round)
        paired: list[Round] = []
        used: Counter[str] = Counter()
        for round in unpaired:
            if isinstance(round, Results):
                continue
            if isinstance(round, Prompt) or not round.calls:
                paired.append(round)
                continue
            paired += self._with_results(round, results, at, used)
        orphans = [back for call, backs in results.items() for back in backs[used[call] :]]
        for back in orphans:
            self._returned(back)
        self._pairs_tally.drop(
            "results without a call", len(orphans), "the call they answer is not in the conversation"
        )
        return paired

    def _with_results(
        self, answer: Answer, results: dict[str, list[CallReturned]], at: dict[str, Results], used: Counter[str]
    ) -> list[Round]:
        parts: list[Part | CallMade] = []
        backs: list[CallReturned] = []
        when = answer.at
        for part in answer.parts:
            if not isinstance(part, CallMade):
                parts.append(part)
                continue
            number = used[part.call]
            used[part.call] += 1
            name = part.call if part.call and not number else f"{part.call or 'call'}_{number + 1}"
            matching = results.get(part.call, [])[number : number + 1]
            if not matching:
                self._pairs_tally.adapt("calls without a result", 1, "closed with a note that none was recorded")
                self._closed.add(name)
                matching = [CallReturned(call=part.call, output=raw(NO_RESULT), failed=True)]
            else:
                when = max(when, at[part.call].at)
            if name != part.call:
                self._pairs_tally.adapt("call ids", 1, "two calls had the same id")
            parts.append(msgspec.structs.replace(part, call=name))
            backs.append(msgspec.structs.replace(matching[0], call=name))
        return [
            msgspec.structs.replace(answer, parts=tuple(parts)),
            Results(key=f"{answer.key}r", at=when, returns=tuple(backs)),
        ]

    # As plain text ----------------------------------------------------------------------------------------------------

    def _as_text(self, kept: list[Round]) -> list[Round]:
        """Calls and results as text, for a provider that rejects unknown tools."""
        as_text: list[Round] = []
        for round in kept:
            if isinstance(round, Answer):
                parts = tuple(_call_as_text(part) if isinstance(part, CallMade) else part for part in round.parts)
                self._tally.adapt("calls", len(round.calls), "written as text, as asked")
                as_text.append(msgspec.structs.replace(round, parts=parts))
            elif isinstance(round, Results):
                self._tally.adapt("results", len(round.returns), "written as text, as asked")
                as_text.append(
                    Prompt(
                        key=round.key,
                        at=round.at,
                        parts=tuple(chain.from_iterable(map(_result_as_text, round.returns))),
                    )
                )
            else:
                as_text.append(round)
        return as_text

    # Too long for the target ------------------------------------------------------------------------------------------

    def _last_that_fit(self, fitted: Iterable[Round]) -> LastTurns:
        """The last turns that fit the target's context, and at least one turn; long results are shortened first."""
        writer = self._target.writer
        room = (writer.context_tokens if writer else 100_000) * CHARACTERS_PER_TOKEN
        last = LastTurns(room)
        for round in fitted:
            last.add(round)
        if last.is_too_long:
            self._brief = self._make_brief()
            last.cut_to(room - len(self._brief) - 2000)
        return last

    def _beginning(self, kept: list[Round], *, is_cut: bool) -> list[Round]:
        """The prompt to put first: the brief if turns were cut off, or a note if the first round is not a prompt."""
        if is_cut:
            self._tally.adapt("brief", 1, "put in front, in place of the turns that were dropped")
            words = f"{NOT_SHOWN}\n\n{self._brief}".strip()
            return [Prompt(key="brief", at=kept[0].at, parts=(TextPart(text=words),))]
        if kept and not isinstance(kept[0], Prompt):
            self._tally.adapt("beginning", 1, "a conversation has to begin with a prompt")
            return [Prompt(key="0", at=kept[0].at, parts=(TextPart(text=NO_BEGINNING),))]
        return []


def _runtimes(events: Iterable[Event]) -> dict[int, str]:
    """The program that made each call and answer, by its seq."""
    runtime = ""
    driven_by = {}
    for event in events:
        if isinstance(event.body, RuntimeAttached):
            runtime = event.body.runtime
        elif isinstance(event.body, CallMade | MessageAdded):
            driven_by[event.seq] = runtime
    return driven_by


def _changes(counted: Counter[tuple[str, str]]) -> list[Change]:
    return [Change(what=what, count=count, why=why) for (what, why), count in counted.items()]


def _call_as_text(call: CallMade) -> TextPart:
    return TextPart(text=f"[call {call.call}: {call.tool} {bytes(call.input).decode()}]")


def _result_as_text(back: CallReturned) -> list[Part]:
    """A result as text. Without an output the texts among its parts are the output."""
    rest = [part for part in back.parts if bytes(back.output) != b"null" or not isinstance(part, TextPart)]
    return [TextPart(text=f"[result of call {back.call}]\n{output_text(back)}"), *rest]
