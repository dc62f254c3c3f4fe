"""The sessions that `clew` alone offers: of this folder or of everywhere, newest first, filtered by words.

They are loaded a page at a time, so that the first page is shown at once however many there are.
"""

import os
from typing import TYPE_CHECKING, Any

from clew.cli.results.sessions import nested, titled
from clew.cli.times import ago
from clew.views.contract import origin_of

if TYPE_CHECKING:
    from clew.service.sessions.line import SessionLine

# The first page fills the screen; a filter needs them all.
PAGE, NEXT_PAGE = 200, 1000
# A shorter word is not the beginning of an id: "3" would match ids by accident.
ID_BEGINNING = 4
# The columns beside the title, and the narrowest terminal that shows each.
AGO, RUNTIME, PROJECT, STATE = 12, 13, 20, 10
WIDE, WIDER, WIDEST = 60, 90, 110


class SessionChoices:
    """The list, as the picker asks for it."""

    def __init__(self, plane: Any, folder: str) -> None:
        self._plane = plane
        self._folder = folder
        self.everywhere = not folder
        self.cursor = 0
        self.words = ""
        self._begin()
        if folder and not self._lines:
            # Nothing was done here yet: what was done elsewhere is of more use than an empty list.
            self.everywhere = True
            self._begin()

    @property
    def title(self) -> str:
        more = "" if self._is_complete else "+"
        where = "all folders" if self.everywhere else _short(self._folder)
        if self.words:
            return f"clew · {where} · {len(self):,}{more} of {len(self._lines):,}{more} sessions"
        return f"clew · {where} · {len(self):,}{more} {'session' if len(self) == 1 else 'sessions'}"

    @property
    def hint(self) -> str:
        if not self._folder:
            return ""
        return "this folder" if self.everywhere else "everywhere"

    @property
    def chosen(self) -> "SessionLine | None":
        """The session under the cursor."""
        return self._shown[self.cursor][0] if self.cursor < len(self) else None

    def __len__(self) -> int:
        return len(self._shown)

    def row(self, number: int, width: int) -> list[tuple[str, int]]:
        line, depth = self._shown[number]
        title = f"{'  ' * (depth - 1)}└ " if depth else ""
        columns = [(ago(line.last_at), AGO)]
        if width >= WIDEST:
            columns.append((line.status, STATE))
        if width >= WIDE:
            columns.append((line.runtime, RUNTIME))
        if width >= WIDER and self.everywhere:
            columns.append((line.project, PROJECT))
        spaced = [(_with_gap(text, size), size) for text, size in columns]
        return [*spaced, (title + titled(line), 0)]

    def filter(self, words: str) -> None:
        self.words = words
        self.cursor = 0
        self._show()

    def switch(self) -> None:
        if self._folder:
            self.everywhere = not self.everywhere
            self.cursor = 0
            self._begin()

    def reload(self, chosen: str = "") -> None:
        """Read the list again; the cursor goes to a session, or stays on its own."""
        wanted = chosen or (self.chosen.id if self.chosen else "")
        loaded = len(self._lines)
        self._begin()
        while len(self._lines) < loaded and not self._is_complete:
            self._load_page(NEXT_PAGE)
        ids = [line.id for line, _ in self._shown]
        self.cursor = ids.index(wanted) if wanted in ids else min(self.cursor, max(0, len(ids) - 1))

    @property
    def wants_more(self) -> bool:
        """A page is loaded when the cursor comes near the end, and all pages for a filter."""
        return not self._is_complete and (bool(self.words) or self.cursor + PAGE // 2 > len(self))

    def load_more(self) -> None:
        self._load_page(NEXT_PAGE)

    def _begin(self) -> None:
        self._lines: list[SessionLine] = []
        self._texts: dict[str, str] = {}
        self._last_read = ""
        self._is_complete = False
        self._load_page(PAGE)

    def _load_page(self, limit: int) -> None:
        given = {} if self.everywhere else {"folder": self._folder}
        if self._last_read:
            given["before"] = self._last_read
        page: list[SessionLine] = self._plane.call("sessions", limit=limit, **given)
        self._is_complete = len(page) < limit
        self._last_read = page[-1].id if page else self._last_read
        for line in page:
            if line.state != "erased" and not origin_of(line.metadata).parent and line.id not in self._texts:
                self._lines.append(line)
                self._texts[line.id] = " ".join(
                    (titled(line), line.runtime, line.project, line.agent, line.status)
                ).casefold()  # fmt: skip
        self._show()

    def _show(self) -> None:
        words = self.words.casefold().split()
        self._shown = nested([line for line in self._lines if all(self._says(line, word) for word in words)])

    def _says(self, line: "SessionLine", word: str) -> bool:
        return word in self._texts[line.id] or (len(word) >= ID_BEGINNING and line.id.startswith(word))


def _with_gap(text: str, size: int) -> str:
    """The text, short enough to leave a space before the next column."""
    return text if len(text) < size else text[: size - 2] + "…"


def _short(folder: str) -> str:
    """The folder as people write it, with ~ for their home."""
    home = os.path.expanduser("~")
    return "~" + folder.removeprefix(home) if folder == home or folder.startswith(f"{home}/") else folder
