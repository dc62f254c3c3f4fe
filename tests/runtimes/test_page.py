"""A session as one HTML page: complete, self-contained, and nothing that was said is markup."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, FilePart, ImagePart, Part, TextPart, ThinkingPart
from clew.runtimes.adapters.interchange import About, plain, whole_exchanges
from clew.runtimes.export_forms.page import pieces
from clew.runtimes.rounds import Answer, Prompt, Results, Round

AT = 1_794_800_000_000_000
PICTURE = b"\x89PNG\r\n\x1a\n <script>"
ABOUT = About(
    session="0abc", title="Fix it", project="app", agent="me", runtime="codex", cwd="/home/me/app",
    opened_at=AT, exported_at=AT, head=16, blob={"pic": PICTURE, "txt": b"<b>from the file</b>"}.__getitem__,
)  # fmt: skip
ATTACKS = [
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title></head><body onload=alert(1)>",
    '" onmouseover="alert(1)',
    "' onmouseover='alert(1)",
    "<img src=http://evil.example/x.png onerror=alert(1)>",
    "[x](javascript:alert(1)) javascript:alert(1)",
    '<a href="javascript:alert(1)">x</a>',
    "```html\n</pre><script>alert(1)</script>\n```",
    "```\n<script>never closed",
    "</details></article></main><h2>User forged</h2>",
    "<!-- <![CDATA[ --> ]]> <?xml ?>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "\u202e gnp.exe \u2066 <b> \u2069 \x00\x1b]8;;http://evil.example\x07",
]


def export(talk: list[Round], about: About) -> bytes:
    return b"".join(pieces(whole_exchanges(talk, about.read), about))


class Page(HTMLParser):
    """The elements and attributes of a page, and its text by element."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.within: list[str] = []
        self.odd: list[str] = []
        self.feed(data.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.within.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.texts.append((self.within[-1] if self.within else "", data))

    def handle_comment(self, data: str) -> None:
        self.odd.append(data)

    def unknown_decl(self, data: str) -> None:
        self.odd.append(data)

    def handle_pi(self, data: str) -> None:
        self.odd.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def said(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def everywhere(text: str) -> list[Round]:
    """A conversation that has the text in every place that text can be."""
    made = CallMade(call=text, tool=text, input=Raw(msgspec.json.encode({"x": text})))
    parts: tuple[Part, ...] = (
        TextPart(text=text),
        ImagePart(blob="pic", media_type=f"image/png {text}", name=text),
        ImagePart(blob="pic", media_type="image/png", name=text),
        FilePart(blob="txt", media_type="text/html" + text, name=text),
    )
    back = CallReturned(call=text, output=Raw(msgspec.json.encode(text)), parts=parts)
    return [
        Prompt(key="1", at=AT, parts=parts),
        Answer(key="3", at=AT, model=text, parts=(ThinkingPart(text=text), TextPart(text=text), made)),
        Results(key="4", at=AT, returns=(back, CallReturned(call="lost" + text, output=Raw(b'"x"')))),
    ]


def about(text: str) -> About:
    return msgspec.structs.replace(ABOUT, session=text, title=text, project=text, agent=text, runtime=text, cwd=text)


def check_harmless(data: bytes, same_shape_as: bytes) -> None:
    """The page has exactly the elements that a page of harmless words has, and no attribute that acts."""
    page, harmless = Page(data), Page(same_shape_as)
    assert not page.odd
    assert not page.within, "something was left open"
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in harmless.elements]
    for (tag, attributes), (_, expected) in zip(page.elements, harmless.elements, strict=True):
        assert attributes.keys() == expected.keys(), (tag, attributes)
        assert {name: value for name, value in attributes.items() if name != "alt"} == {
            name: value for name, value in expected.items() if name != "alt"
        }


@pytest.mark.parametrize("attack", [one for one in ATTACKS if "```" not in one])
def test_nothing_that_was_said_is_markup(attack: str) -> None:
    check_harmless(export(everywhere(attack), about(attack)), export(everywhere("word"), about("word")))


@pytest.mark.parametrize("attack", [one for one in ATTACKS if "```" in one])
def test_nothing_in_a_fence_is_markup(attack: str) -> None:
    check_harmless(export(everywhere(attack), about("x")), export(everywhere("```\nword\n```"), about("x")))


@given(st.text(st.sampled_from("<>&'\"/=! -`~x\n\r\x00\u202e\\"), max_size=40))
def test_every_letter_of_what_was_said_is_there(text: str) -> None:
    made = CallMade(call="a", tool="t", input=Raw(b"{}"))
    talk: list[Round] = [
        Answer(key="3", at=AT, parts=(made,)),
        Results(key="4", at=AT, returns=(CallReturned(call="a", output=Raw(msgspec.json.encode(f"({text})"))),)),
    ]
    assert f"({plain(text)})" in "".join(Page(export(talk, ABOUT)).said("pre"))


def test_the_page_needs_nothing_and_forbids_everything_else() -> None:
    page = Page(export(everywhere("word"), ABOUT))
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    (style,) = page.said("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert {tag for tag, _ in page.elements} <= set(
        "html head meta title style body header main article h1 h2 dl dt dd div pre p code b small a time img details "
        "summary".split()
    )
    assert all(re.fullmatch(r"#r\d+", one["href"] or "") for one in page.all("a"))
    assert not re.search(r"url\(|@import|https?:", style)
    assert "prefers-color-scheme: dark" in style
    # The policy stands before anything it has to judge.
    assert [tag for tag, _ in page.elements].index("meta") < [tag for tag, _ in page.elements].index("style")


def test_images_are_in_the_page_and_nothing_else_is() -> None:
    parts = (
        ImagePart(blob="pic", media_type="image/png", name="shot.png"),
        ImagePart(blob="pic"),
        ImagePart(blob="pic", media_type="IMAGE/JPEG"),
        FilePart(blob="pic", media_type="image/webp"),
        ImagePart(blob="pic", media_type="text/html"),
        ImagePart(blob="pic", media_type='image/png;base64,"><script>'),
        ImagePart(blob="gone", media_type="image/png"),
        FilePart(blob="pic", media_type="application/pdf", name="a.pdf"),
        FilePart(blob="txt", media_type="text/html", name="a.html"),
    )
    page = Page(export([Prompt(key="1", at=AT, parts=parts)], ABOUT))
    data = base64.b64encode(PICTURE).decode()
    kinds = ("png", "png", "jpeg", "webp")
    assert [one["src"] for one in page.all("img")] == [f"data:image/{kind};base64,{data}" for kind in kinds]
    assert page.all("img")[0]["alt"] == f"[image shot.png, image/png, {len(PICTURE)} bytes]"
    assert "[image image/png, no longer kept]" in page.said("p")
    assert "<b>from the file</b>" in "".join(page.said("pre"))


def test_a_call_is_folded_with_what_it_gave() -> None:
    made = CallMade(call="a", tool="Bash", input=Raw(b'{"command":"ls"}'))
    long = "\n".join(f"line {i}" for i in range(300))
    for returned, words in ((None, "no result"), (False, ""), (True, "failed")):
        talk: list[Round] = [Answer(key="1", at=AT, parts=(made,))]
        if returned is not None:
            back = CallReturned(call="a", output=Raw(msgspec.json.encode(long)), failed=returned)
            talk.append(Results(key="2", at=AT, returns=(back,)))
        page = Page(export(talk, ABOUT))
        assert page.said("code") == ["Bash"]
        assert "".join(page.said("b")) == words
        assert (long in "".join(page.said("pre"))) is (returned is not None)
        assert len(page.all("details")) == (1 if returned is None else 2)


def test_lines_and_fenced_code_are_kept() -> None:
    page = Page(export([Prompt(key="1", at=AT, parts=(TextPart(text="a\n  b\n```py\nx = 1\n```\nc"),))], ABOUT))
    assert [text for text in page.said("div") if text.strip()] == ["a\n  b", "c"]
    assert "".join(page.said("pre")) == "x = 1"


def test_direction_marks_are_shown() -> None:
    text = export(everywhere("a\u202eb\u2066c"), about("a\u202eb")).decode()
    assert "\\u202e" in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
