"""The programs that a session can go on in, to pick one from."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.service.capture.connect import KnownProgram

NAME, TITLE = 16, 24


class ProgramChoices:
    """The list, as the picker asks for it; the installed programs come first."""

    title = "Go on in which program?"
    hint = ""
    wants_more = False

    def __init__(self, programs: "list[KnownProgram]", own: str) -> None:
        writable = [program for program in programs if program.writes and program.name != own]
        self._programs = sorted(writable, key=lambda program: not program.installed)
        self.cursor = 0
        self.filter("")

    @property
    def chosen(self) -> str:
        return self._shown[self.cursor].name

    def __len__(self) -> int:
        return len(self._shown)

    def row(self, number: int, width: int) -> list[tuple[str, int]]:
        program = self._shown[number]
        return [(program.name, NAME), (program.title, TITLE), ("" if program.installed else "not installed", 0)]

    def filter(self, words: str) -> None:
        self.words = words
        self.cursor = 0
        wanted = words.casefold()
        self._shown = [each for each in self._programs if wanted in f"{each.name} {each.title}".casefold()]

    def switch(self) -> None:
        """There is one list only."""

    def load_more(self) -> None:
        """All programs are there."""
