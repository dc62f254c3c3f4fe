"""A session as a Markdown document for people.

All stored text is hostile. Messages of people and llms are quoted, line by line, so that they cannot pass for a part of
the document; their Markdown works, except for HTML, links and images. The input and output of tools is in fences that
are longer than any fence inside them.
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
    Totals,
    content_of,
    file_text,
    moment,
    named,
    one_line,
    plain,
    returned_text,
)
from clew.runtimes.export_forms.entries import Entry, Mark
from clew.runtimes.rounds import Answer, Prompt, Results, Round

# Longer texts are folded.
SHOWN_LINES, SHOWN_CHARACTERS = 20, 2_000
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
# Limited to the length of a line of code: an open span must not cause repeated searches to the end.
_SPAN = re.compile(r"(?<![`\\])(`{1,9})(?!`)([^\n]{0,300}?[^`\n])\1(?!`)")
_PLAIN_NAME = re.compile(r"[\w.:/-]+")
# Some renderers run the code in fences of some languages (mermaid, dataviewjs ...): only these names are kept.
LANGUAGES = frozenset(
    "bash c cpp cs css diff dockerfile go html ini java javascript js json jsonl jsx kotlin lua makefile markdown md "
    "patch php python py ruby rust rs sh shell sql swift text toml ts tsx typescript xml yaml yml zsh".split()
)


def pieces(entries: Iterable[Entry], about: About) -> Iterator[bytes]:
    """The transcript, readable as text and when rendered, an entry at a time."""
    yield f"# {inline(about.title) or 'Untitled session'}\n\n{_facts(about)}".encode()
    for entry in entries:
        blocks = [_mark(entry)] if isinstance(entry, Mark) else _blocks(entry, about)
        yield "".join(f"\n\n{block}" for block in blocks).encode()
    yield b"\n"


def _mark(mark: Mark) -> str:
    return f"*{mark.key}. {inline(mark.text)}*"


def _blocks(exchange: Exchange, about: About) -> Iterator[str]:
    yield f"## {exchange.round.key}. {_heading(exchange)}"
    calls = iter(exchange.calls)
    for part in getattr(exchange.round, "parts", ()):
        yield from _call(next(calls), about) if isinstance(part, CallMade) else _part(part, about)
    for back in exchange.lost:
        yield f"**Result** of a call that is not here, {_code(back.call)}"
        yield from _returned(back, about)


def facts(about: About) -> list[tuple[str, str]]:
    """The facts about the session: names and values, without the empty ones."""
    pairs = [
        ("Session", about.session),
        ("Project", about.project),
        ("Agent", about.agent),
        ("Runtime", about.runtime),
        ("Directory", about.cwd),
        ("Began", clock(about.began_at) if about.began_at else ""),
        ("Last", clock(about.last_at) if about.last_at else ""),
        ("Opened", clock(about.opened_at) if about.opened_at else ""),
        ("Turns", f"{about.totals.turns:,}" if about.totals.turns else ""),
        ("Calls", _calls(about.totals)),
        ("Used", _used(about.totals)),
        ("Last event", str(about.head) if about.head else ""),
        ("Exported", clock(about.exported_at) if about.exported_at else ""),
    ]
    return [(name, value) for name, value in pairs if value]


def _calls(totals: Totals) -> str:
    failed = f", {totals.errors:,} failed" if totals.errors else ""
    return f"{totals.calls:,}{failed}" if totals.calls else ""


def _used(totals: Totals) -> str:
    if not (totals.tokens or totals.cached_tokens):
        return ""
    cost = "" if totals.cost_micros is None else f", ${totals.cost_micros / 1e6:,.6f}"
    return f"{totals.tokens:,} tokens and {totals.cached_tokens:,} from a cache{cost}"


def clock(at: int) -> str:
    """A time for people."""
    return moment(at)[:19].replace("T", " ") + " UTC"


def speaker(round: Round) -> str:
    """The speaker of a round."""
    match round:
        case Prompt(role="system"):
            return "System"
        case Prompt():
            return "User"
        case Answer():
            return "Assistant"
        case Results():
            return "Tools"
        case _:
            assert_never(round)


def fenced(text: str) -> Iterator[tuple[str | None, str]]:
    """Text as Markdown parses it: the language and the content of each fenced block, None and the text between them."""
    lines: list[str] = []
    opened: tuple[str, str] | None = None
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if opened is None and match and not (match[1][0] == "`" and "`" in match[2]):
            yield None, "\n".join(lines)
            lines, opened = [], (match[1], match[2].strip())
        elif opened and match and match[1].startswith(opened[0]) and not match[2].strip():
            yield opened[1], "\n".join(lines)
            lines, opened = [], None
        else:
            lines.append(line)
    yield (opened[1] if opened else None), "\n".join(lines)


def is_long(text: str) -> bool:
    return len(text) > SHOWN_CHARACTERS or text.count("\n") >= SHOWN_LINES


def extent(text: str) -> str:
    """The length of a text, for people."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def inline(text: str) -> str:
    """Text on one line without Markdown."""
    text = re.sub(r"([\\`*_\[\]|~])", r"\\\1", one_line(text))
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _facts(about: About) -> str:
    rows = [f"| {name} | {inline(value)} |" for name, value in facts(about)]
    return "\n".join(["| | |", "|---|---|", *rows])


def _heading(exchange: Exchange) -> str:
    round = exchange.round
    model = f" ({inline(round.model)})" if isinstance(round, Answer) and round.model else ""
    side = f", subagent {inline(exchange.side)}" if exchange.side else ""
    return f"{speaker(round)}{model}{side}, {clock(round.at)}"


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
        return [*blocks, f"**Its result was {call.gone}**" if call.gone else "**No result**"]
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
    """A fenced block whose text cannot end the fence; the text is already plain."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _code(text: str) -> str:
    """A name as code, on one line."""
    text = one_line(text)
    return f"`{text}`" if _PLAIN_NAME.fullmatch(text) else _span(text) or "(unnamed)"


def _span(text: str) -> str:
    # An HTML tag of ours, because backticks would show the escapes.
    return f"<code>{_entities(text)}</code>" if text else ""


def _entities(text: str) -> str:
    """Text without HTML and Markdown."""
    return re.sub(r"[^\w\s.,:;=/+()-]|_", lambda found: f"&#{ord(found[0])};", text)


def _quoted(text: str) -> str:
    """A message as a quotation: its Markdown works, its HTML, links and images do not."""
    blocks: list[str] = []
    for language, block in fenced(plain(text)):
        if language is not None:
            word = language.split(" ")[0].lower()
            blocks.append(_fence(block, word if word in LANGUAGES else ""))
        elif block.strip():
            blocks.append(_prose(block.strip("\n")))
    return "\n".join(f"> {line}" if line else ">" for line in "\n\n".join(blocks).split("\n"))


def _prose(text: str) -> str:
    """Text with hard line breaks, because Markdown would join its lines."""
    return re.sub(r"(?<=\S)[ \t]*\n(?=[ \t]*\S)", "  \n", "".join(_disarmed(text)))


def _disarmed(text: str) -> Iterable[str]:
    at = 0
    for span in _SPAN.finditer(text):
        yield _escaped(text[at : span.start()])
        # Backticks allow no escapes: code that needs them is written as HTML of ours.
        yield span[0] if _escaped(span[2]) == span[2] else _span(span[2])
        at = span.end()
    yield _escaped(text[at:])


def _escaped(text: str) -> str:
    """Markdown without HTML, entities, links and images: their addresses are shown as text."""
    text = re.sub(r"&(?=[#\w])", "&amp;", text).replace("<", "&lt;")
    return re.sub(r"\](?=[(\[:])", r"]\\", text)
