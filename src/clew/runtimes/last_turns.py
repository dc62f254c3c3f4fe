"""The last turns of a conversation that fit a context. Long results are shortened before a turn is dropped.

The largest results are shortened first, among results of about one size the oldest. The rounds come one by one, and
only what fits is held: a conversation of any length takes the memory of one context.
"""

from collections import deque

import msgspec

from clew.model.events import CallMade, CallReturned, TextPart
from clew.runtimes.contract import raw
from clew.runtimes.rounds import Prompt, Results, Round, output_text

# Results are shortened to the first length while that makes enough room, then to the next.
LENGTHS = (100_000, 20_000, 4_000)
LEFT_OUT = "\n\n[{count:,} characters of this result are left out here, because it is too long; clew keeps them]\n\n"


class LastTurns:
    """The last turns of a conversation. It holds only what fits the room, but at least one turn."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._turns: deque[_Turn] = deque()
        self._size = 0
        # For each of the lengths: the results that are longer, oldest first. A turn is dropped only when all are empty.
        self._longer: tuple[deque[_Long], ...] = tuple(deque() for _ in LENGTHS)
        self.turns_before = 0

    @property
    def rounds(self) -> list[Round]:
        return [round for turn in self._turns for round in turn.rounds]

    @property
    def shortened(self) -> int:
        """How many of the results that are held were shortened."""
        return sum(len(turn.shortened) for turn in self._turns)

    def add(self, round: Round) -> None:
        """Add a round; a turn begins with a prompt, the first turn with any round."""
        if not self._turns or isinstance(round, Prompt):
            self._turns.append(_Turn())
        turn = self._turns[-1]
        size = _length(round)
        if isinstance(round, Results):
            for number, back in enumerate(round.returns):
                long = _Long(turn=turn, round=len(turn.rounds), number=number)
                for length, longer in zip(LENGTHS, self._longer, strict=True):
                    if _output_length(back) > length:
                        longer.append(long)
        turn.rounds.append(round)
        turn.size += size
        self._size += size
        self._shorten_to(self._room)
        self._drop_to(self._room)

    @property
    def is_too_long(self) -> bool:
        """Whether turns were dropped, or one turn alone is longer than the room."""
        return self.turns_before > 0 or self._size > self._room

    def cut_to(self, room: int) -> None:
        """Shorten results, then drop turns, until the rest fits a smaller room, because a brief comes first."""
        self._shorten_to(room)
        while len(self._turns) > 1 and self._size > room:
            self._drop_first()

    def _shorten_to(self, room: int) -> None:
        for length, longer in zip(LENGTHS, self._longer, strict=True):
            while longer and self._size > room:
                self._size -= longer.popleft().shorten(length)

    def _drop_to(self, room: int) -> None:
        while len(self._turns) > 1 and self._size - self._turns[0].size > room:
            self._drop_first()

    def _drop_first(self) -> None:
        turn = self._turns.popleft()
        self._size -= turn.size
        self.turns_before += 1


class _Turn(msgspec.Struct):
    rounds: list[Round] = []
    size: int = 0
    shortened: set[tuple[int, int]] = set()


class _Long(msgspec.Struct):
    """A long result of a turn: the number of its round, and its own number in that round."""

    turn: _Turn
    round: int
    number: int

    def shorten(self, length: int) -> int:
        """Shorten the result; returns how much shorter the turn is now."""
        round = self.turn.rounds[self.round]
        if not isinstance(round, Results):
            return 0
        returns = list(round.returns)
        returns[self.number] = _shortened(returns[self.number], length)
        self.turn.rounds[self.round] = shorter = msgspec.structs.replace(round, returns=tuple(returns))
        self.turn.shortened.add((self.round, self.number))
        freed = _length(round) - _length(shorter)
        self.turn.size -= freed
        return freed


def _shortened(back: CallReturned, length: int) -> CallReturned:
    """The beginning and the end of a result, with a note of how much is left out between them."""
    text = output_text(back)
    if len(text) <= length:
        return back
    beginning, end = text[: length * 2 // 3], text[-(length // 3) :]
    note = LEFT_OUT.format(count=len(text) - len(beginning) - len(end))
    rest = tuple(part for part in back.parts if not isinstance(part, TextPart))
    return msgspec.structs.replace(back, output=raw(beginning + note + end), parts=rest)


def _output_length(back: CallReturned) -> int:
    return len(bytes(back.output)) + sum(len(part.text) for part in back.parts if isinstance(part, TextPart))


def _length(round: Round) -> int:
    if isinstance(round, Results):
        return sum(map(_output_length, round.returns))
    return sum(
        len(bytes(part.input)) if isinstance(part, CallMade) else len(getattr(part, "text", "")) for part in round.parts
    )
