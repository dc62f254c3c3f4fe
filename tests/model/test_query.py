"""Queries: what was typed, whether the words are in order, and the snippet that shows them."""
# ruff: noqa: RUF001  # Letters that look like others are what this is about.

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.model.errors import InvalidInput
from clew.model.query import LONGEST_QUERY, SNIPPET, Query, Term, matches, parse, snippet
from clew.model.words import SEAM
from support.wording import all_words, follow, parts, texts


def term(words: str, *, prefix: bool = False) -> Term:
    return Term(tuple(words.replace("~", SEAM).split(" ")), prefix)


WANTED = {
    "lock error": [term("lock"), term("error")],
    '"database is locked"': [term("database is locked")],
    'a "b c" d': [term("a"), term("b c"), term("d")],
    '"never closed': [term("never closed")],
    "lock*": [term("lock", prefix=True)],
    '"is lock"*': [term("is lock", prefix=True)],
    '"is lock*"': [term("is lock", prefix=True)],
    "getUserName": [term("get~user~name")],
    "src/app/billing.py:12": [term("src app billing py 12")],
    "foo-bar --option": [term("foo bar"), term("option")],
    "東京": [term("東 京")],
    "a:b & (c|d)": [term("a b"), term("c d")],
    "AND or NOT near": [term("and"), term("or"), term("not"), term("near")],
    "it's \"": [term("it s")],
    "x\0y\x1b": [term("x y")],
    "": [],
    " \t\n": [],
}


@pytest.mark.parametrize(("text", "wanted"), WANTED.items(), ids=map(ascii, WANTED))
def test_anything_can_be_typed(text: str, wanted: list[Term]) -> None:
    assert parse(text) == Query(tuple((one,) for one in wanted))


EITHER = {
    "lock OR mutex": [["lock", "mutex"]],
    "a lock OR mutex b": [["a"], ["lock", "mutex"], ["b"]],
    "a OR b OR c": [["a", "b", "c"]],
    '"a b" OR c': [["a b", "c"]],
    "a or b": [["a"], ["or"], ["b"]],
    'a "OR" b': [["a"], ["or"], ["b"]],
    "OR a": [["or"], ["a"]],
    "a OR": [["a"], ["or"]],
    "a OR ?!": [["a"], ["or"]],
    "OR": [["or"]],
    "a OR OR b": [["a", "b"]],
}


@pytest.mark.parametrize(("text", "groups"), EITHER.items(), ids=EITHER)
def test_or_stands_between_two_terms(text: str, groups: list[list[str]]) -> None:
    assert parse(text) == Query(tuple(tuple(map(term, group)) for group in groups))


def test_or_never_joins_what_is_left_out() -> None:
    assert parse("a OR -b") == Query(((term("a"),), (term("or"),)), (term("b"),))
    assert parse("a -b OR c") == Query(((term("a"),), (term("or"),), (term("c"),)), (term("b"),))


def test_a_minus_leaves_a_word_or_a_phrase_out() -> None:
    assert parse('lock -test -"is fine" -un* -get_user') == Query(
        ((term("lock"),),), (term("test"), term("is fine"), term("un", prefix=True), term("get user"))
    )


@pytest.mark.parametrize("text", ['"', '""', "-", "--", "*", "-*", "?!", "\0\x01", "🙂", "\ue000", "(((", '" " "'])
def test_a_query_without_a_word_says_so(text: str) -> None:
    with pytest.raises(InvalidInput, match="the query has no word"):
        parse(text)


def test_there_must_be_something_to_look_for() -> None:
    with pytest.raises(InvalidInput, match="the query only excludes words; add one"):
        parse("-test")


@pytest.mark.parametrize("length", [LONGEST_QUERY + 1, 10_000_000])
def test_a_query_is_not_a_book(length: int) -> None:
    with pytest.raises(InvalidInput, match=f"at most 1,000 characters, and this has {length:,}"):
        parse("x" * length)
    assert parse("x" * LONGEST_QUERY)


@given(texts | st.text(max_size=30))
def test_no_query_breaks_the_parser(text: str) -> None:
    try:
        found = parse(text)
    except InvalidInput:
        return
    for one in (*found.terms, *found.unwanted):
        assert one.words
        assert all(part in all_words(part) for word in one.words for part in word.split(SEAM))


# The order of words ---------------------------------------------------------------------------------------------------

PHRASES = {
    ('"is locked"', "the database is locked."): True,
    ('"is locked"', "it is not locked"): False,
    ('"is locked"', "locked it is"): False,
    ('"is lock"*', "is locked"): True,
    ('"is lock"', "is locked"): False,
    ('"get user"', "getUser"): True,
    ("getUser", "get_user get-user"): True,
    ("getUser", "getUserName"): True,
    ("getUser", "get the user"): False,
    ("getUser", "getuser"): True,
    ("getuser", "getUser"): True,
    ("GETUSER", "getUser"): True,
    ("getuser", "getUserName"): False,
    ("getuser*", "getUserName"): True,
    ("readme.md", "see ReadMe.md"): True,
    ("ReadMe.md", "see README.MD"): True,
    ("mymodule.getUser", "MyModule.getUserName"): True,
    ("MyModule.GetUserName", "mymodule.getusername()"): True,
    ("mymodule.getuser", "MyModule.getUserName"): False,
    ("my.getuser", "MyModule my.getUser"): True,
    ("a" * 100 + "Bc", "a" * 64): True,
    ("lock OR mutex", "a mutex"): True,
    ('"a lock" OR mutex', "lock a"): False,
    ('"a lock" OR mutex', "lock a mutex"): True,
    ("billing.py", "app/billing.py:3"): True,
    ("本語", "日本語の"): True,
    ("日語", "日本語"): False,
    ('lock -"not fine"', "lock, which is not fine"): False,
    ('lock -"not fine"', "fine, not lock"): True,
}


@pytest.mark.parametrize(("query", "text"), PHRASES)
def test_the_words_of_a_phrase_stand_next_to_each_other(query: str, text: str) -> None:
    assert matches(parse(query), [text]) is PHRASES[query, text]


def test_a_phrase_does_not_reach_from_one_text_into_the_next() -> None:
    assert not matches(parse('"is locked"'), ["it is", "locked"])
    assert matches(parse('"is locked"'), ["it is", "is locked"])


@given(texts, st.data())
def test_any_stretch_of_a_text_is_a_phrase_of_it(text: str, data: st.DataObject) -> None:
    stream = parts(text)
    if not stream:
        return
    first = data.draw(st.integers(0, len(stream) - 1))
    last = data.draw(st.integers(first, len(stream) - 1))
    phrase = tuple(stream[first : last + 1])
    assert matches(Query(((Term(phrase),),)), ["other", text])
    assert matches(Query(((Term((*phrase[:-1], phrase[-1][:1]), prefix=True),),)), [text])


@settings(max_examples=300)
@given(texts, texts, st.booleans(), st.data())
def test_a_text_matches_what_the_rules_say(text: str, other: str, begun: bool, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    cut = text[start : start + data.draw(st.integers(1, 20))]
    typed = data.draw(st.sampled_from([cut, cut.upper(), cut.lower(), cut.swapcase(), other[:20]])).replace('"', "")
    try:
        query = parse(f'"{typed}"' + "*" * begun)
    except InvalidInput:
        return
    begun = begun or typed.endswith("*")
    assert matches(query, [text]) is follow(text, typed, begun=begun), (ascii(text), ascii(typed))


# Snippets -------------------------------------------------------------------------------------------------------------


def marked(query: str, *passage: str) -> list[str]:
    found = snippet(parse(query), passage)
    return [found.text[start:end] for start, end in found.marks]


def test_the_words_are_marked_where_they_stand() -> None:
    assert snippet(parse("lock"), ["a Lock and a lock"]).marks == [(2, 6), (13, 17)]
    assert marked("cafe", "le Café, cafe\u0301") == ["Café", "cafe\u0301"]
    assert marked("user", "getUserName by userName") == ["User", "user"]
    assert marked("getUserName", "x.getUserName()") == ["getUserName"]
    assert marked('"is lock"*', "is it? it is  locked") == ["is locked"]
    assert marked("東京", "私は東京に住む") == ["東京"]
    assert marked("abc", "ＡＢＣ！") == ["ＡＢＣ"]
    assert marked("lock -free", "lock free") == ["lock"]


def test_a_snippet_is_one_line_around_most_of_the_words() -> None:
    text = "lock " + "x " * 500 + "the lock\n\n\tof the   database\r\nwas broken" + " y" * 500
    found = snippet(parse("lock database broken"), [text])
    assert "the lock of the database was broken" in found.text
    assert found.text[0] == found.text[-1] == "…"
    assert [found.text[a:b] for a, b in found.marks] == ["lock", "database", "broken"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cafe", "x " * 5000 + "Café"),
        ("art", "start " * 300 + "art"),
        ("がく", "x " * 500 + "か\u3099く"),
        ("locked", "x" * 5000 + " locked"),
        ("b" * 70, "a" * 1000 + " " + "b" * 5000),
        ("и\u0306", "start " * 300 + "Й"),
    ],
)
def test_a_word_is_shown_however_far_in_and_however_written(query: str, text: str) -> None:
    found = snippet(parse(query), ["", "nothing", text])
    assert found.marks
    assert len(found.text) <= SNIPPET + 2


def test_without_words_the_beginning_is_shown() -> None:
    assert snippet(Query(), ["", "a\nb", "c"]).text == "a b"
    assert snippet(Query(), ["x " * 500]).text == "x " * 80 + "…"
    assert snippet(Query(), []).text == ""


@settings(max_examples=300)
@given(st.lists(texts, min_size=1, max_size=3), st.integers(0, 300), st.data())
def test_what_is_marked_is_a_word_that_was_looked_for(passage: list[str], before: int, data: st.DataObject) -> None:
    known = sorted({word for text in passage for word in all_words(text)})
    if not known:
        return
    word = data.draw(st.sampled_from(known))
    found = snippet(Query(((Term((word,)),),)), ["x " * before + text for text in passage])
    assert found.marks
    assert len(found.text) <= SNIPPET + 2
    assert not set(found.text) & set("\n\r\t\x85\u2028")
    for start, end in found.marks:
        assert 0 <= start < end <= len(found.text)
        # Only at the end of the snippet a word can be cut.
        said = all_words(found.text[start:end])
        assert word in said or (found.text[end:] == "…" and any(word.startswith(one) for one in said))
