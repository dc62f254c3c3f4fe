"""What an answer is made of is masked, or somebody says why it need not be: mypy holds the type, this who makes it."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import clew
from clew.server.http.answer_text import AnswerText
from clew.server.http.exchange import Answer, Exchange
from clew.server.streams import sse

SOURCE = Path(clew.__file__).parent
MAKER = "server/http/answer_text.py"
# Every place that says that a text has nothing to mask, by file and reason. A new one is looked at, and added here.
SAID = {
    ("server/http/compression.py", "MASKED_BEFORE"): 4,
    ("server/http/middleware.py", "OWN_WORDS"): 1,
    ("server/http/object_routes.py", "MASKED_BEFORE"): 1,
    ("server/http/request_handler.py", "DECLARED"): 2,
    ("server/http/request_handler.py", "MASKED_BEFORE"): 3,
    ("server/http/request_handler.py", "OWN_WORDS"): 1,
    ("server/streams/sse.py", "MASKED_BEFORE"): 1,
    ("server/streams/sse.py", "OWN_WORDS"): 4,
    ("server/web/results.py", "DECLARED"): 1,
    ("server/web/results.py", "MASKED_BEFORE"): 1,
    ("server/web/routes.py", "MASKED_BEFORE"): 3,
    ("server/web/routes.py", "OWN_WORDS"): 2,
}


def names() -> Iterator[tuple[str, str]]:
    """The reasons that are named and the answer texts that are made, each with its file."""
    for path in SOURCE.rglob("*.py"):
        file = str(path.relative_to(SOURCE))
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="NeedsNoMasking"), attr=reason):
                    yield file, reason
                case ast.Call(func=ast.Name(id="AnswerText" | "cast" as made)) if file != MAKER:
                    if made == "AnswerText" or "AnswerText" in ast.dump(node):
                        yield file, made


def test_only_masking_makes_the_text_of_an_answer_or_who_says_why_it_need_not() -> None:
    assert Counter(names()) == SAID


def test_a_raw_text_is_no_answer() -> None:
    """What everything goes through takes the type and nothing wider."""
    assert get_type_hints(Answer)["body"] is AnswerText
    assert get_type_hints(Answer)["rest"] == Iterator[AnswerText] | None
    assert get_type_hints(Exchange.send_body)["body"] is AnswerText
    assert get_type_hints(sse._send)["text"] is AnswerText
