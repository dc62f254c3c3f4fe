"""A session as one self-contained HTML page: no script, no request, with its style and its images inside.

All stored text is hostile and reaches the page only through `_text`, which escapes it. The page's content security
policy forbids everything except its one style sheet and its embedded images.
"""

import base64
import hashlib
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
)
from clew.runtimes.export_forms.entries import Entry, Mark
from clew.runtimes.export_forms.markdown import clock, extent, facts, fenced, is_long, speaker
from clew.runtimes.rounds import Answer

STYLE = """
:root { color-scheme: light dark; --ink: #1d2127; --soft: #5b6470; --paper: #fff; --tint: #f4f5f7; --line: #d9dde3;
  --user: #0b62c4; --assistant: #6d3fc0; --tools: #4d5763; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ec; --soft: #9aa4b1; --paper: #14171b; --tint: #1e2329;
  --line: #343b45; --user: #7db5f5; --assistant: #bda0f2; --tools: #aab4c0; --bad: #ff8a80 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 52rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif }
h1 { margin: 0 0 1rem; font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0 0 2rem; font-size: .875rem }
dt { color: var(--soft) }
dd { margin: 0; overflow-wrap: anywhere }
article { margin: 1.5rem 0; padding-left: 1rem; border-left: 3px solid var(--line) }
article.user { border-color: var(--user) }
article.assistant { border-color: var(--assistant) }
h2 { display: flex; flex-wrap: wrap; gap: .2rem .75rem; align-items: baseline; margin: 0 0 .5rem; font-size: 1rem }
.user h2 { color: var(--user) }
.assistant h2 { color: var(--assistant) }
h2 small { color: var(--soft); font-weight: 400; overflow-wrap: anywhere }
h2 a { margin-left: auto; color: var(--soft); font-weight: 400; text-decoration: none }
.said { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; margin: .5rem 0 }
pre, code { font: .85em/1.5 ui-monospace, monospace }
pre { margin: .5rem 0; padding: .75rem; background: var(--tint); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; unicode-bidi: isolate }
details { margin: .5rem 0; border: 1px solid var(--line); border-radius: 6px }
details > :not(summary) { margin-left: .75rem; margin-right: .75rem }
summary { padding: .4rem .75rem; cursor: pointer; overflow-wrap: anywhere; font-size: .9rem }
summary small { color: var(--soft) }
.failed > summary, .failed > summary small { color: var(--bad) }
p.note { color: var(--soft); font-size: .9rem; overflow-wrap: anywhere }
img { display: block; max-width: 100%; height: auto; margin: .5rem 0; border-radius: 6px }
@media print { body { max-width: none } article { break-inside: auto } }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
_IMAGE = re.compile(r"image/[a-z0-9][a-z0-9.+-]*")


def pieces(entries: Iterable[Entry], about: About) -> Iterator[bytes]:
    """The transcript as one page, an entry at a time."""
    title = _text(one_line(about.title)) or "Untitled session"
    fact_rows = "".join(f"<dt>{name}</dt><dd>{_text(one_line(value))}</dd>\n" for name, value in facts(about))
    yield f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1 dir="auto">{title}</h1>
<dl>
{fact_rows}</dl>
</header>
<main>
""".encode()
    for entry in entries:
        yield (_mark(entry) if isinstance(entry, Mark) else _article(entry, about)).encode()
    yield b"</main>\n</body>\n</html>\n"


def _mark(mark: Mark) -> str:
    return f'<p class="note" id="r{mark.key}">{mark.key}. {_text(mark.text)}</p>\n'


def _article(exchange: Exchange, about: About) -> str:
    round, number = exchange.round, _text(exchange.round.key)
    who = speaker(round)
    model = f"<small>{_text(one_line(round.model))}</small>" if isinstance(round, Answer) and round.model else ""
    time = f'<small><time datetime="{moment(round.at)}">{clock(round.at)}</time></small>'
    link = f'<a href="#r{number}" aria-label="Link to {number}">{number}</a>'
    heading = f"<h2>{who} {model}{_side(exchange)} {time} {link}</h2>"
    return f'<article id="r{number}" class="{who.lower()}">\n{heading}\n{"".join(_body(exchange, about))}</article>\n'


def _side(exchange: Exchange) -> str:
    return f" <small>subagent {_text(one_line(exchange.side))}</small>" if exchange.side else ""


def _body(exchange: Exchange, about: About) -> Iterator[str]:
    calls = iter(exchange.calls)
    for part in getattr(exchange.round, "parts", ()):
        yield _call(next(calls), about) if isinstance(part, CallMade) else _part(part, about)
    for back in exchange.lost:
        yield f'<p class="note">Result of a call that is not here: {_text(one_line(back.call))}</p>\n'
        yield _returned(back, about)


def _part(part: Part, about: About) -> str:
    match part:
        case TextPart(text=text):
            return _message(text)
        case ThinkingPart(text=text):
            return _folded("Thinking", _message(text)) if text.strip() else ""
        case ImagePart() | FilePart():
            return _binary(part, about)
        case _:
            assert_never(part)


def _message(text: str) -> str:
    """A message: its lines unchanged, fenced code as code."""
    blocks = []
    for language, block in fenced(plain(text)):
        if language is not None:
            blocks.append(f"<pre>{_text(block)}</pre>\n")
        elif block.strip():
            blocks.append(f'<div class="said" dir="auto">{_text(block.strip(chr(10)))}</div>\n')
    return "".join(blocks)


def _binary(part: ImagePart | FilePart, about: About) -> str:
    """An image as an image, a text file folded, any other file by its name."""
    data = content_of(part, about)
    note = _text(named(part, data))
    media_type = part.media_type.lower() or ("image/png" if isinstance(part, ImagePart) else "")
    if data is not None and _IMAGE.fullmatch(media_type):
        return f'<img alt="{note}" src="data:{media_type};base64,{base64.b64encode(data).decode()}">\n'
    text = file_text(part, data)
    return f'<p class="note">{note}</p>\n' if text is None else _folded(note, f"<pre>{_text(text)}</pre>\n")


def _call(call: Called, about: About) -> str:
    given = plain(bytes(call.made.input).decode(errors="replace"))
    hint = given if len(given) <= 80 else given[:79] + "…"
    tool = f"<code>{_text(one_line(call.made.tool)) or '(unnamed)'}</code>"
    missing = f"its result was {call.gone}" if call.gone else "no result"
    outcome = missing if call.back is None else "failed" if call.back.failed else ""
    summary = f"{tool} <small>{_text(one_line(hint))}</small>{f' <b>{outcome}</b>' if outcome else ''}"
    inside = f"<pre>{_text(given)}</pre>\n" + (_returned(call.back, about) if call.back else "")
    return _folded(summary, inside, name="failed" if outcome == "failed" else "call")


def _returned(back: CallReturned, about: About) -> str:
    text = returned_text(back)
    shown = f"<pre>{_text(text)}</pre>\n" if text else '<p class="note">(empty)</p>\n' if not back.parts else ""
    if is_long(text):
        shown = _folded(f"Output <small>{extent(text)}</small>", shown)
    return shown + "".join(_part(part, about) for part in back.parts if not isinstance(part, TextPart))


def _folded(summary: str, inside: str, *, name: str = "fold") -> str:
    """A folded section; both arguments are already HTML."""
    return f'<details class="{name}"><summary>{summary}</summary>\n{inside}</details>\n'


def _text(text: str) -> str:
    """Stored text as HTML without markup, also safe in an attribute."""
    return html.escape(plain(text), quote=True)
