"""Templates to pages. Stored text is hostile, so it is made harmless here, for every template, and nowhere else.

Every value that a template prints passes through `plain`, which writes out control characters and marks of direction,
and is then escaped. Only `text/markdown.py` and `text/code.py` make markup, from parts that are escaped themselves.
"""

import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clew.model import figures
from clew.model.plain import plain
from clew.model.steps import end_step
from clew.runtimes.fit import in_words
from clew.server.web import static_files
from clew.server.web.page_request import Page, Shell
from clew.server.web.rights_in_words import rights_in_words
from clew.server.web.text.ansi import coloured
from clew.server.web.text.code import highlighted
from clew.server.web.text.markdown import rendered
from clew.server.web.text.patience import begin_page
from clew.service.handover.materialised import command_line, quoted

# How many pieces of a page are made before other requests have their turn.
PIECES = 100


def render(page: Page, shell: Shell, *, now: int = 0) -> str:
    """The HTML of a page, or of its content alone when the browser puts that into a page it shows."""
    from clew.server.web.navigation import MENU

    begin_page()
    pieces = _environment().get_template(page.template).generate(
        {**page.values, "shell": shell, "menu": MENU, "now": now or time.time_ns() // 1000}
    )  # fmt: skip
    return "".join(_in_steps(pieces))


def _in_steps(pieces: Iterable[str]) -> Iterator[str]:
    for number, piece in enumerate(pieces):
        if number % PIECES == 0:
            end_step()
        yield piece


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("clew.server.web"), autoescape=True, undefined=StrictUndefined, finalize=_plain,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.globals |= {"asset": static_files.address, "link": link}
    environment.filters |= {
        "ago": figures.ago, "ansi": coloured, "code": highlighted, "cost": figures.cost, "count": figures.count,
        "duration": figures.duration, "line": one_line, "markdown": rendered, "minutes": minutes, "number": number,
        "person": person, "quoted": quoted, "counted": in_words, "rights": rights_in_words, "shell": command_line,
        "short": short, "timestamp": timestamp, "took": took,
    }  # fmt: skip
    return environment


def _plain(value: Any) -> Any:
    if value is None:
        return ""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# What templates do with values ----------------------------------------------------------------------------------------


def link(path: str, /, **query: Any) -> str:
    """An address of this server; what has no value is left out."""
    given = {name: value for name, value in query.items() if value not in ("", None, 0)}
    return f"{path}?{urlencode(given)}" if given else path


def one_line(text: str, longest: int = 120) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(plain(text[: longest * 4]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def number(value: int) -> str:
    return f"{value:,}"


def short(value: int) -> str:
    """A large number in few characters: 12, 3.4k, 28k, 1.2M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}" if value < 10 * size else f"{value // size:,}{unit}"
    return str(value)


def took(us: int) -> str:
    """How long a session took, in one unit: 40 s, 12 min, 3 h, 5 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if us >= 2 * size * 1_000_000 or (us >= size * 1_000_000 and unit == "min"):
            return f"{us // (size * 1_000_000):,} {unit}"
    return f"{us // 1_000_000} s"


def person(principal: str) -> str:
    """A principal as people call it."""
    return principal.removeprefix("person:")


def timestamp(at: int) -> str:
    """A time for programs, in UTC; a number out of range, as in a hostile record, has none."""
    utc = _utc(at)
    return "" if utc is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", utc)


def minutes(at: int) -> str:
    """A time for people, in UTC."""
    utc = _utc(at)
    return str(at) if utc is None else time.strftime("%Y-%m-%d %H:%M UTC", utc)


def _utc(at: int) -> time.struct_time | None:
    try:
        utc = time.gmtime(at // 1_000_000)
    except (OverflowError, ValueError, OSError):
        return None
    return utc if 1000 <= utc.tm_year <= 9999 else None
