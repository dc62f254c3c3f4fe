"""A list on the whole terminal from which a person picks an entry. The only module that knows prompt_toolkit.

It draws a `List` and returns the key that was pressed on an entry; what the key does is the caller's business. Texts
are drawn with control characters escaped, in as many columns as the terminal has.
"""

import asyncio
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, UIContent, UIControl, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from clew.model.errors import ClewError
from clew.model.plain import plain

LEAVE = "q"
STYLE = Style([("cursor-line", "reverse"), ("bar", "bold"), ("keys", "dim")])
UNBROKEN = "\u00a0"
TYPING = "type words to filter by · Enter keeps them · Esc clears them"
# What may run while a list is shown; it is given a function that draws the list again.
Work = Callable[[Callable[[], None]], Awaitable[None]]
# An escape sequence of a slow connection arrives within this time; a lone Escape waits for it.
ESCAPE_SECONDS = 0.1


class List(Protocol):
    """What is shown. The picker moves `cursor` and asks again after every key."""

    cursor: int

    @property
    def title(self) -> str: ...

    @property
    def hint(self) -> str:
        """What the Tab key does, in a few words; empty for nothing."""
        ...

    @property
    def words(self) -> str:
        """What the list is filtered by."""
        ...

    def __len__(self) -> int: ...

    def row(self, number: int, width: int) -> list[tuple[str, int]]:
        """The columns of an entry, each with its text and its width; 0 is the rest of the line."""
        ...

    def filter(self, words: str) -> None: ...

    def switch(self) -> None:
        """Show the other of two lists, if there are two."""
        ...

    @property
    def wants_more(self) -> bool:
        """Whether `load_more` is to be called, because entries are missing that the screen or the filter needs."""
        ...

    def load_more(self) -> None: ...


class _Rows(UIControl):
    """Draws the rows that are in the window, and no others."""

    def __init__(self, entries: List) -> None:
        self._entries = entries
        self.height = 1

    def is_focusable(self) -> bool:
        return True

    def create_content(self, width: int, height: int) -> UIContent:
        self.height = max(1, height)
        count = len(self._entries)
        return UIContent(
            get_line=lambda number: self._line(number, width), line_count=count, show_cursor=False,
            cursor_position=Point(0, min(self._entries.cursor, max(0, count - 1))),
        )  # fmt: skip

    def _line(self, number: int, width: int) -> StyleAndTextTuples:
        mark = "> " if number == self._entries.cursor else "  "
        return [("", mark + fitted(self._entries.row(number, width - len(mark)), width - len(mark)))]


def fitted(columns: Sequence[tuple[str, int]], width: int) -> str:
    """The columns in one line of exactly this width."""
    parts: list[str] = []
    room = width
    for text, wanted in columns:
        size = min(wanted or room, room)
        parts.append(_sized(plain(text.replace("\n", " ").replace("\t", " ")), size))
        room -= size
    return "".join(parts) + " " * room


def _sized(text: str, width: int) -> str:
    """The text cut or filled to a width in cells; a wide character takes two."""
    if get_cwidth(text) > width:
        taken = ""
        # The last cell is for the mark of the cut.
        for character in text:
            if get_cwidth(taken + character) > width - 1:
                break
            taken += character
        text = taken + "…" if width else ""
    return text + " " * (width - get_cwidth(text))


def pick(entries: List, keys: dict[str, str], *, work: Work | None = None, message: str = "") -> str:
    """Show the list until a key of `keys` is pressed, and return that key; `LEAVE` leaves without an entry.

    `work` runs meanwhile; it is cancelled when the list is left.
    """
    return _Picker(entries, keys, message).run(work)


class _Picker:
    """One showing of a list."""

    def __init__(self, entries: List, keys: dict[str, str], message: str) -> None:
        self._entries = entries
        self._keys = keys
        self._message = plain(message)
        self._is_typing = False
        self._rows = _Rows(entries)
        self._pressed = asyncio.Event()
        bindings = KeyBindings()
        self._add_moving_keys(bindings)
        self._add_filter_keys(bindings)
        self._add_ending_keys(bindings)
        self._application: Application[str] = Application(
            layout=Layout(self._screen(), focused_element=self._rows), key_bindings=bindings, full_screen=True,
            style=STYLE,
        )  # fmt: skip
        self._application.ttimeoutlen = ESCAPE_SECONDS
        self._application.key_processor.after_key_press += lambda _: self._pressed.set()

    def run(self, work: Work | None) -> str:
        def begin() -> None:
            self._application.create_background_task(self._ending_with_error(self._load()))
            if work is not None:
                self._application.create_background_task(self._ending_with_error(work(self._application.invalidate)))

        return self._application.run(pre_run=begin)

    async def _load(self) -> None:
        while True:
            while self._entries.wants_more:
                self._entries.load_more()
                self._application.invalidate()
                await asyncio.sleep(0)  # Keys are handled between two pages.
            await self._pressed.wait()
            self._pressed.clear()

    async def _ending_with_error(self, task: Awaitable[None]) -> None:
        try:
            await task
        except ClewError as error:
            self._application.exit(exception=error)

    # What is drawn ----------------------------------------------------------------------------------------------------

    def _screen(self) -> HSplit:
        entries = self._entries
        is_filtered = Condition(lambda: self._is_typing or bool(entries.words))
        return HSplit([
            Window(FormattedTextControl(lambda: [("class:bar", plain(entries.title))]), height=1, style="class:bar"),
            Window(self._rows, cursorline=True, wrap_lines=False, height=Dimension(min=1)),
            ConditionalContainer(Window(FormattedTextControl(self._filter), height=1), is_filtered),
            ConditionalContainer(self._paragraph("", lambda: self._message), Condition(lambda: bool(self._message))),
            self._paragraph("class:keys", self._legend),
        ])  # fmt: skip

    def _paragraph(self, style: str, text: Callable[[], str]) -> Window:
        def lines() -> StyleAndTextTuples:
            wrapped = textwrap.wrap(text(), self._application.output.get_size().columns)
            return [(style, "\n".join(wrapped).replace(UNBROKEN, " "))]

        return Window(FormattedTextControl(lines), dont_extend_height=True)

    def _filter(self) -> StyleAndTextTuples:
        return [("", f"/{plain(self._entries.words)}"), ("reverse", " " if self._is_typing else "")]

    def _legend(self) -> str:
        if self._is_typing:
            return TYPING
        words = [f"{'Enter' if key == 'enter' else key} {does}" for key, does in self._keys.items()]
        hint = self._entries.hint
        words = ["↑↓ move", *words, "/ filter", *([f"Tab {hint}"] if hint else []), "q leave"]
        # A key and its meaning stay in one line.
        return "  ".join(word.replace(" ", UNBROKEN) for word in words)

    # Keys -------------------------------------------------------------------------------------------------------------

    def _add_moving_keys(self, bindings: KeyBindings) -> None:
        """They work while a filter is typed, too."""
        entries, rows = self._entries, self._rows

        def move(key: str, by: Callable[[], int]) -> None:
            @bindings.add(key)
            def _(event: KeyPressEvent) -> None:
                entries.cursor = max(0, min(entries.cursor + by(), len(entries) - 1))

        for keys, by in (
            ("up c-p", lambda: -1), ("down c-n", lambda: 1), ("pageup", lambda: -rows.height),
            ("pagedown", lambda: rows.height), ("home", lambda: -len(entries)), ("end", lambda: len(entries)),
        ):  # fmt: skip
            for key in keys.split():
                move(key, by)

        @bindings.add("tab")
        def _(event: KeyPressEvent) -> None:
            entries.switch()

        @bindings.add("c-l")
        def _(event: KeyPressEvent) -> None:
            event.app.renderer.clear()

    def _add_filter_keys(self, bindings: KeyBindings) -> None:
        entries = self._entries
        typing = Condition(lambda: self._is_typing)

        @bindings.add(Keys.Any, filter=typing)
        def _(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                entries.filter(entries.words + event.data)

        @bindings.add("backspace", filter=typing)
        def _(event: KeyPressEvent) -> None:
            entries.filter(entries.words[:-1])

        @bindings.add("c-u", filter=typing)
        def _(event: KeyPressEvent) -> None:
            entries.filter("")

        @bindings.add("enter", filter=typing)
        def _(event: KeyPressEvent) -> None:
            self._is_typing = False

        @bindings.add("/", filter=~typing)
        def _(event: KeyPressEvent) -> None:
            self._is_typing = True

    def _add_ending_keys(self, bindings: KeyBindings) -> None:
        entries = self._entries
        typing = Condition(lambda: self._is_typing)

        @bindings.add("escape", eager=True)
        def _(event: KeyPressEvent) -> None:
            if not (self._is_typing or entries.words):
                event.app.exit(result=LEAVE)
                return
            self._is_typing = False
            entries.filter("")

        @bindings.add("q", filter=~typing)
        @bindings.add("c-c")
        @bindings.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=LEAVE)

        def end_with(key: str) -> None:
            @bindings.add(key, filter=~typing)
            def _(event: KeyPressEvent) -> None:
                if len(entries):
                    event.app.exit(result=key)

        for key in self._keys:
            end_with(key)
