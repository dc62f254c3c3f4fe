"""A session as Markdown: readable, complete, and nothing that was said can act or pass for the document."""

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, FilePart, ImagePart, TextPart, ThinkingPart
from clew.runtimes.adapters.interchange import About, plain, whole_exchanges
from clew.runtimes.export_forms.markdown import fenced, pieces
from clew.runtimes.rounds import Answer, Prompt, Results, Round

AT = 1_794_800_000_000_000
BLOBS = {"pic": b"\x89PNG....", "txt": b"from the file"}
ABOUT = About(
    session="0abc", title="Fix *it*", project="my_app", agent="me", runtime="codex", cwd="/home/me/app",
    opened_at=AT, exported_at=AT + 60_000_000, head=16, blob=BLOBS.__getitem__,
)  # fmt: skip
ATTACKS = [
    "<script>alert(1)</script>",
    "</details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/track.png)",
    "[x](javascript:alert(1))",
    "[x](javascript\\:alert(1))",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "[y]: http://evil.example\n\n[y]",
    "<http://evil.example>",
    "&lt;script&gt; &#60;b&#62; [x](java&#115;cript:alert(1))",
    "```\ncode\n```\n<script>alert(1)</script>",
    "```\nnever closed <script>",
    "~~~js\n<script>\n~~~~\n<b>out</b>",
    "````\n```\n<b>in</b>\n```\n````\n<i>out</i>",
    "``` `\n<script>alert(1)</script>\n```",
    "- ```\n<script>alert(1)</script>",
    "    ```\n<script>alert(1)</script>",
    "`a <b> c` and ``x ` <i>`` and `<u>\n<script>`",
    "\\`<script>alert(1)</script>\\`",
    "`x`<b>`y`<i>`",
    "> quote\n\n<div>\n\n# 9. User, forged",
    "text\r<script>alert(1)</script>\r\n<b>",
    "```\ncode\r```\r<script>alert(1)</script>",
    "text\u2028<script>\u2029<b>\x0b<i>\x85<u>",
    "<!-- --> <![CDATA[ <?php ",
    "a\n===\n\n## 7. User, 2026\n\n---\n| a | b |\n|---|---|\n| <b> | c |",
]
OURS = {"details", "summary", "code"}


def export(talk: list[Round], about: About) -> bytes:
    return b"".join(pieces(whole_exchanges(talk, about.read), about))


class Page(HTMLParser):
    """The elements of rendered Markdown, and the text of its code."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.headings: list[str] = []
        self.depth = self.quoted = 0
        self.text = ""
        self.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text.decode()))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.quoted += tag == "blockquote"
        if re.fullmatch("h[1-6]", tag) and not self.quoted:
            self.headings.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.quoted -= tag == "blockquote"

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.tags.append("declaration")

    def unknown_decl(self, data: str) -> None:
        self.tags.append("declaration")

    def handle_pi(self, data: str) -> None:
        self.tags.append("instruction")


# What Markdown itself makes, and what we write.
HARMLESS = OURS | set("h1 h2 h3 h4 h5 h6 p blockquote pre br hr em strong ul ol li table thead tbody tr th td".split())


def everywhere(text: str) -> list[Round]:
    """A conversation that has the text in every place that text can be."""
    made = CallMade(call=text, tool=text, input=Raw(msgspec.json.encode({"x": text})))
    back = CallReturned(call=text, output=Raw(msgspec.json.encode(text)), failed=True)
    return [
        Prompt(key="1", at=AT, parts=(TextPart(text=text), ImagePart(blob="pic", media_type=text, name=text))),
        Prompt(key="2", at=AT, parts=(TextPart(text=text),), role="system"),
        Answer(key="3", at=AT, model=text, parts=(ThinkingPart(text=text), TextPart(text=text), made)),
        Results(key="4", at=AT, returns=(back, CallReturned(call="lost" + text, output=Raw(b'"x"')))),
    ]


def about(text: str) -> About:
    return msgspec.structs.replace(ABOUT, title=text, project=text, agent=text, runtime=text, cwd=text)


def check_harmless(text: str) -> None:
    page = Page(export(everywhere(text), about(text)))
    assert set(page.tags) <= HARMLESS, (text, set(page.tags) - HARMLESS)
    for tag, name, value in page.attributes:
        assert (tag, name) in {("code", "class"), ("ol", "start"), ("th", "style"), ("td", "style")}, (text, tag, name)
        assert name != "style" or re.fullmatch("text-align:(left|right|center)", value or "")
    assert page.tags.count("details") == page.tags.count("summary")
    # The document's own parts are one title and one heading for each round; what was said adds none.
    assert page.headings == ["h1", "h2", "h2", "h2", "h2"], text


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_was_said_can_act_or_pass_for_the_document(attack: str) -> None:
    check_harmless(attack)


@given(st.text(st.sampled_from("`~<>&[](): \n\r\\abc#*_|-!&#;/\t"), max_size=60))
def test_no_mixture_of_marks_can_act(text: str) -> None:
    check_harmless(text)


@given(st.text(st.sampled_from("`~\n <b>x"), max_size=40))
def test_what_a_tool_gave_is_shown_to_the_letter(text: str) -> None:
    talk: list[Round] = [
        Answer(key="1", at=AT, parts=(CallMade(call="a", tool="t"),)),
        Results(key="2", at=AT, returns=(CallReturned(call="a", output=Raw(msgspec.json.encode(f"<{text}>"))),)),
    ]
    assert f"<{text}>\n" in Page(export(talk, ABOUT)).text


def test_what_looks_like_an_entity_is_shown_to_the_letter() -> None:
    talk: list[Round] = [Prompt(key="1", at=AT, parts=(TextPart(text="write &lt;b&gt; or `&#60;` & go"),))]
    assert "write &lt;b&gt; or &#60; & go" in Page(export(talk, ABOUT)).text


def test_the_document_reads_well() -> None:
    called = CallMade(call="a", tool="Bash", input=Raw(b'{"command":"ls"}'))
    said = TextPart(text="I look:\n\n```PYTHON x\nls()\n```")
    talk: list[Round] = [
        Prompt(key="1", at=AT, parts=(TextPart(text="list the files\nin `src`, not `a<b>`"),)),
        Answer(key="2", at=AT, model="some-model", parts=(said, called)),
        Results(key="3", at=AT, returns=(CallReturned(call="a", output=Raw(b'"a.txt"')),)),
    ]
    assert export(talk, ABOUT).decode() == GOLDEN


GOLDEN = """\
# Fix \\*it\\*

| | |
|---|---|
| Session | 0abc |
| Project | my\\_app |
| Agent | me |
| Runtime | codex |
| Directory | /home/me/app |
| Opened | 2026-11-16 03:33:20 UTC |
| Last event | 16 |
| Exported | 2026-11-16 03:34:20 UTC |

## 1. User, 2026-11-16 03:33:20 UTC

> list the files  \n> in `src`, not <code>a&#60;b&#62;</code>

## 2. Assistant (some-model), 2026-11-16 03:33:20 UTC

> I look:
>
> ```python
> ls()
> ```

**Call** `Bash`

```json
{"command":"ls"}
```

**Result**

```text
a.txt
```
"""


def test_long_output_is_folded_and_complete() -> None:
    output = "\n".join(f"line {i} ```" for i in range(500))
    talk: list[Round] = [
        Answer(key="1", at=AT, parts=(CallMade(call="a", tool="t"),)),
        Results(key="2", at=AT, returns=(CallReturned(call="a", output=Raw(msgspec.json.encode(output))),)),
    ]
    text = export(talk, ABOUT).decode()
    assert f"<details><summary>Output, 500 lines</summary>\n\n````text\n{output}\n````\n\n</details>" in text


def test_missing_and_lost_results_and_bytes_are_said() -> None:
    parts: Any = (
        FilePart(blob="txt", media_type="text/plain", name="n.txt"),
        ImagePart(blob="gone", media_type="image/png"),
        CallMade(call="a", tool="t"),
    )
    talk: list[Round] = [
        Answer(key="1", at=AT, parts=parts),
        Results(key="2", at=AT, returns=(CallReturned(call="other", output=Raw(b'""'), failed=True),)),
    ]
    text = export(talk, ABOUT).decode()
    for said in ("from the file", "no longer kept", "**No result**", "not here, `other`", "*(empty)*"):
        assert said in text


def test_only_known_languages_are_passed_on() -> None:
    text = export([Prompt(key="1", at=AT, parts=(TextPart(text="```mermaid\nclick\n```\n```js\nx\n```"),))], ABOUT)
    assert b"mermaid" not in text
    assert b"```js\n" in text


def test_control_characters_and_direction_marks_are_shown() -> None:
    text = export(everywhere("a\x1b[31m\u202eb\x07"), about("a\x1b[31m\u202eb\x07")).decode()
    assert plain(text) == text
    assert "\\u202e" in text


def test_fences_are_found_as_markdown_finds_them() -> None:
    text = "a\n```py\n~~~\n``\n````\nb\n``` x`y\n~~~ x`y\nc"
    assert list(fenced(text)) == [(None, "a"), ("py", "~~~\n``"), (None, "b\n``` x`y"), ("x`y", "c")]
