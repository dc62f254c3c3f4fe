"""A session as a Markdown document for people.

All stored text is hostile. What people and models said is quoted, line by line, so that it cannot pass for a part of
the document; its Markdown works, but for HTML, links and images. What tools took and gave is in fences that are longer
than any inside them.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import assert_never

from clew.model.events import CallMade, CallReturned, FilePart, ImagePart, Part, TextPart, ThinkingPart
from clew.runtimes.adapters.interchange import (
    About,
    Called,
    Exchange,
    content_of,
    file_text,
    moment,
    named,
    one_line,
    plain,
    returned_text,
    whole_exchanges,
)
from clew.runtimes.rounds import Answer, Prompt, Results, Round

# What is longer is folded.
SHOWN_LINES, SHOWN_CHARACTERS = 20, 2_000
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
# No longer than a line of code is: what never closes must not be searched for to the end again and again.
_SPAN = re.compile(r"(?<![`\\])(`{1,9})(?!`)([^\n]{0,300}?[^`\n])\1(?!`)")
_PLAIN_NAME = re.compile(r"[\w.:/-]+")
# Some renderers run what is in a fence of a language they know (mermaid, dataviewjs ...): only these are passed on.
LANGUAGES = frozenset(
    "bash c cpp cs css diff dockerfile go html ini java javascript js json jsonl jsx kotlin lua makefile markdown md "
    "patch php python py ruby rust rs sh shell sql swift text toml ts tsx typescript xml yaml yml zsh".split()
)


def pieces(rounds: list[Round], about: About) -> Iterator[bytes]:
    """The conversation, readable as it is and when rendered, a round at a time."""
    yield f"# {inline(about.title) or 'Untitled session'}\n\n{_facts(about)}".encode()
    for number, exchange in enumerate(whole_exchanges(rounds, about.read), 1):
        yield "".join(f"\n\n{block}" for block in _blocks(number, exchange, about)).encode()
    yield b"\n"


def _blocks(number: int, exchange: Exchange, about: About) -> Iterator[str]:
    yield f"## {number}. {_heading(exchange.round)}"
    calls = iter(exchange.calls)
    for part in getattr(exchange.round, "parts", ()):
        yield from _call(next(calls), about) if isinstance(part, CallMade) else _part(part, about)
    for back in exchange.lost:
        yield f"**Result** of a call that is not here, {_code(back.call)}"
        yield from _returned(back, about)


def facts(about: About) -> list[tuple[str, str]]:
    """What is known of the session: names and values, the empty ones left out."""
    told = [
        ("Session", about.session),
        ("Project", about.project),
        ("Agent", about.agent),
        ("Runtime", about.runtime),
        ("Directory", about.cwd),
        ("Opened", clock(about.opened_at) if about.opened_at else ""),
        ("Last event", str(about.head) if about.head else ""),
        ("Exported", clock(about.exported_at) if about.exported_at else ""),
    ]
    return [(name, value) for name, value in told if value]


def clock(at: int) -> str:
    """A time for people."""
    return moment(at)[:19].replace("T", " ") + " UTC"


def speaker(one: Round) -> str:
    """Who a round is of."""
    match one:
        case Prompt(role="system"):
            return "System"
        case Prompt():
            return "User"
        case Answer():
            return "Assistant"
        case Results():
            return "Tools"
        case _:
            assert_never(one)


def fenced(text: str) -> Iterator[tuple[str | None, str]]:
    """Text as Markdown sees it: the language and the content of each fenced block, None and the text of all else."""
    lines: list[str] = []
    opened: tuple[str, str] | None = None
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if opened is None and found and not (found[1][0] == "`" and "`" in found[2]):
            yield None, "\n".join(lines)
            lines, opened = [], (found[1], found[2].strip())
        elif opened and found and found[1].startswith(opened[0]) and not found[2].strip():
            yield opened[1], "\n".join(lines)
            lines, opened = [], None
        else:
            lines.append(line)
    yield (opened[1] if opened else None), "\n".join(lines)


def is_long(text: str) -> bool:
    return len(text) > SHOWN_CHARACTERS or text.count("\n") >= SHOWN_LINES


def extent(text: str) -> str:
    """How long a text is, in words."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def inline(text: str) -> str:
    """Text on one line in which nothing is Markdown."""
    text = re.sub(r"([\\`*_\[\]|~])", r"\\\1", one_line(text))
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _facts(about: About) -> str:
    rows = [f"| {name} | {inline(value)} |" for name, value in facts(about)]
    return "\n".join(["| | |", "|---|---|", *rows])


def _heading(one: Round) -> str:
    model = f" ({inline(one.model)})" if isinstance(one, Answer) and one.model else ""
    return f"{speaker(one)}{model}, {clock(one.at)}"


def _part(part: Part, about: About) -> list[str]:
    match part:
        case TextPart(text=text):
            return [_quoted(text)] if text.strip() else []
        case ThinkingPart(text=text):
            return _folded("Thinking", _quoted(text)) if text.strip() else []
        case ImagePart() | FilePart():
            data = content_of(part, about)
            written = file_text(part, data)
            return [inline(named(part, data)), *(_output("File", written) if written else [])]
        case _:
            assert_never(part)


def _call(call: Called, about: About) -> list[str]:
    text = plain(bytes(call.made.input).decode(errors="replace"))
    blocks = [f"**Call** {_code(call.made.tool)}"]
    blocks += _folded(f"Input, {extent(text)}", _fence(text, "json")) if is_long(text) else [_fence(text, "json")]
    if call.back is None:
        return [*blocks, "**No result**"]
    return [*blocks, "**Failed**" if call.back.failed else "**Result**", *_returned(call.back, about)]


def _returned(back: CallReturned, about: About) -> list[str]:
    text = returned_text(back)
    blocks = _output("Output", text) if text or not back.parts else []
    return blocks + [block for part in back.parts if not isinstance(part, TextPart) for block in _part(part, about)]


def _output(what: str, text: str) -> list[str]:
    if not text:
        return ["*(empty)*"]
    block = _fence(plain(text), "text")
    return _folded(f"{what}, {extent(text)}", block) if is_long(text) else [block]


def _folded(summary: str, block: str) -> list[str]:
    return [f"<details><summary>{html.escape(summary)}</summary>", block, "</details>"]


def _fence(text: str, language: str) -> str:
    """Code that cannot end its own fence; its text is plain already."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _code(text: str) -> str:
    """A name as code, on one line."""
    text = one_line(text)
    return f"`{text}`" if _PLAIN_NAME.fullmatch(text) else _span(text) or "(unnamed)"


def _span(text: str) -> str:
    # The tag is ours; backticks would show what had to be escaped.
    return f"<code>{_entities(text)}</code>" if text else ""


def _entities(text: str) -> str:
    """Text in which neither HTML nor Markdown is left."""
    return re.sub(r"[^\w\s.,:;=/+()-]|_", lambda found: f"&#{ord(found[0])};", text)


def _quoted(text: str) -> str:
    """What somebody said, as a quotation: its Markdown works, its HTML, links and images do not."""
    blocks: list[str] = []
    for language, block in fenced(plain(text)):
        if language is not None:
            word = language.split(" ")[0].lower()
            blocks.append(_fence(block, word if word in LANGUAGES else ""))
        elif block.strip():
            blocks.append(_prose(block.strip("\n")))
    return "\n".join(f"> {line}" if line else ">" for line in "\n\n".join(blocks).split("\n"))


def _prose(text: str) -> str:
    """Text whose lines stay lines, which Markdown would join."""
    return re.sub(r"(?<=\S)[ \t]*\n(?=[ \t]*\S)", "  \n", "".join(_disarmed(text)))


def _disarmed(text: str) -> Iterable[str]:
    at = 0
    for span in _SPAN.finditer(text):
        yield _escaped(text[at : span.start()])
        # Nothing can be escaped between backticks: code that needs it is written as HTML of ours.
        yield span[0] if _escaped(span[2]) == span[2] else _span(span[2])
        at = span.end()
    yield _escaped(text[at:])


def _escaped(text: str) -> str:
    """Markdown without HTML and entities, and without links and images: their addresses are seen, not followed."""
    text = re.sub(r"&(?=[#\w])", "&amp;", text).replace("<", "&lt;")
    return re.sub(r"\](?=[(\[:])", r"]\\", text)
