"""Words by the rules that the documentation gives, worked out the slow way, and texts of every kind to try them on.

Nothing here is taken from clew, so that it can tell whether clew is right.
"""
# ruff: noqa: RUF001  # Letters that look like others are what this is about.

import re
import unicodedata

from hypothesis import strategies as st

LONGEST = 64

_RUN = re.compile(r"[a-zA-Z0-9\u0080-\U0010ffff]+")
_SEAM = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_UNSPACED = (
    "CJK ", "HIRAGANA", "KATAKANA", "HANGUL SYLLABLE", "THAI ", "LAO ", "MYANMAR", "KHMER", "BOPOMOFO",
    "IDEOGRAPHIC ITERATION", "IDEOGRAPHIC NUMBER", "IDEOGRAPHIC CLOSING", "HENTAIGANA",
    "COMBINING KATAKANA",
)  # fmt: skip
_DRESS = re.compile(
    "COMBINING (?!CYRILLIC|GLAGOLITIC|DEVANAGARI|GRANTHA|OLD PERMIC|GREEK MUSICAL|KATAKANA)"
    "|VARIATION SELECTOR|MONGOLIAN FREE VARIATION SELECTOR"
)


def parts(text: str) -> list[str]:
    """The words of a text one after the other; of camelCase the parts."""
    return [word for run in _RUN.findall(text) for part in _SEAM.split(run) for word in _words(part)]


def runs(text: str) -> list[list[str]]:
    """The words of a text one after the other, each as the parts that capitals make of it."""
    found: list[list[str]] = []
    for run in _RUN.findall(text):
        for number, part in enumerate(_SEAM.split(run)):
            words = _words(part)
            if number:
                found[-1].append(words.pop(0))
            found += [[word] for word in words]
    return found


def follow(text: str, wanted: str, *, begun: bool = False) -> bool:
    """Whether words stand next to each other in a text; a word is a whole word of the text, or some of its parts."""
    stream, terms = runs(text), runs(wanted)
    flat = [part for run in stream for part in run]
    # Where each word begins among the parts, and where it ends.
    whole = {}
    for run in stream:
        first = sum(length for _, length in whole.values())
        whole[first] = "".join(run)[:LONGEST], len(run)

    def ends(at: int, number: int) -> set[int]:
        is_begun = begun and number == len(terms) - 1
        found = set()
        said, length = whole.get(at, ("", 0))
        letters = "".join(terms[number])[:LONGEST]
        if length and (said.startswith(letters) if is_begun else said == letters):
            found.add(at + length)
        parts_there = flat[at : at + len(terms[number])]
        *some, last = terms[number]
        is_last = parts_there[-1:] and (parts_there[-1].startswith(last) if is_begun else parts_there[-1] == last)
        if parts_there[:-1] == some and is_last:
            found.add(at + len(parts_there))
        return found

    for start in range(len(flat)):
        at = {start}
        for number in range(len(terms)):
            at = {end for begin in at for end in ends(begin, number)}
        if at:
            return True
    return False


def all_words(text: str) -> set[str]:
    """Every word a text is found by: the parts, and camelCase as a whole."""
    return {*parts(text), *(word for run in _RUN.findall(text) for word in _words(run))}


def _words(run: str) -> list[str]:
    folded = "".join(map(_folded, unicodedata.normalize("NFKC", run)))
    return [word[:LONGEST] for word in folded.split()]


def _folded(character: str) -> str:
    found = ""
    for one in _without_accents(character.casefold().lower()):
        category, name = unicodedata.category(one), unicodedata.name(one, "")
        if one == "\u200b":
            found += " "
        elif category[0] in "LMN":
            found += f" {one} " if name.startswith(_UNSPACED) else one
        elif category != "Cf":
            found += " "
    return found


def _without_accents(text: str) -> str:
    if unicodedata.name(text[0], "").startswith("CYRILLIC"):
        return text
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(one for one in apart if not _is_dress(one)))


def _is_dress(character: str) -> bool:
    return _DRESS.match(unicodedata.name(character, "")) is not None


# Texts ----------------------------------------------------------------------------------------------------------------

EXAMPLES = (
    "def getUserName(self): return self.user_name.strip()",
    "HTTPServer2Error: XMLHttpRequest failed",
    "src/app/billing.py:12",
    "C:\\Users\\Ada\\app.py",
    "clew.model.words",
    "snake_case CONSTANT_NAME kebab-case",
    "x86_64 v1.2.3-rc4 0xDEADbeef 3.14",
    "café cafe\u0301 CAFÉ naïve Ångström ﬁle ½ ①",
    "ＦＵＬＬ ｗｉｄｔｈ ＃１",
    "Ёлка и подъезд, Й и и\u0306",
    "Σίσυφος ΣΊΣΥΦΟΣ άλφα",
    "السلام عليكم ١٢٣",
    "हिन्दी में लिखा",
    "ภาษาไทย น้ำ",
    "中文搜索：数据库锁",
    "日本語のテキスト が か\u3099 ｶﾞ",
    "한국어 텍스트 \u1112\u1161\u11ab",
    "Straße STRASSE ǅ İstanbul ſ",
    "done✅ ⚠\ufe0fWarning ❤\ufe0flove 1\ufe0f\u20e3 👩\u200d👩\u200d👧 👍🏽x",
    "\x00\x01\x1b[31mred\x1b[0m\x7f\x85",
    "\u0301\u0308 \u0941 lone marks",
    "a" * 200 + "b",
    "Ab" * 100,
    "é" * 70,
    "ﬃ" * 40 + "\u0301" * 200,
    'it\'s "quoted" \\back\\slash\\ (a|b) & !c:* <->',
    "NEAR(a b) a:b* ^c AND OR NOT {x}: -y --z",
    "'; DROP TABLE passage; --",
    "$1 %s %(name)s {} :name ?",
    "\ue000r61736b6564 \ue000s1 \ue000x",
    "soft\u00adhyphen zero\u200bwidth join\u200dner \ufeffbom",
    "ᎣᏏᏲ ꭳꮟꮵ",
    "힣가 \U00020000 \U0001f600",
    "tab\tnew\nline\r\nnext\u2028sep\u00a0nbsp",
)

_LETTERS = (
    "abcdefXYZ019",
    "_-./:\\@#$%&*()[]{}<>\"'`~^|;,!? \t\n",
    "àéîõüçñßøłđÀÉ",
    "\u0301\u0308\u0327\u0323",
    "абвйёЖ",
    "αβγσςάΣ",
    "ابتةلا",
    "हिन्दीक",
    "กขำ้ไ",
    "中文数据库",
    "あいがカガー",
    "한국어",
    "ＡＢａｂ１（",
    "🙂✅⚠\ufe0f\u200d❤1\u20e3",
    "\x00\x01\x1b\x7f\x85\u200b\u00ad\ufeff",
    "\ue000\ue001\uf8ff",
)
_ANY = st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co"])

# One script at a time, and several mixed.
texts = st.one_of(
    st.sampled_from(EXAMPLES),
    st.sampled_from(_LETTERS).flatmap(lambda letters: st.text(letters + "ab Ab.", min_size=1, max_size=30)),
    st.text("".join(_LETTERS), min_size=1, max_size=30),
    st.text(_ANY, min_size=1, max_size=15),
    st.lists(st.sampled_from(EXAMPLES), min_size=2, max_size=4).map("".join),
)
