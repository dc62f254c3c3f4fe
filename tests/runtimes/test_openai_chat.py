"""Chat messages in the OpenAI API's shape."""

from pathlib import PurePath

import msgspec
import pytest

from clew.model.events import CallMade, CallReturned, MessageAdded, Opaque
from clew.runtimes.adapters.openai_chat import RUNTIME, recognises
from clew.runtimes.contract import NoState, Reading
from clew.runtimes.records import read_lines
from support.samples import samples


def bodies(data: bytes) -> list[object]:
    [format] = RUNTIME.formats
    return [draft.body for draft in read_lines(format, Reading(RUNTIME.name, "chat", NoState()), data).drafts]


def test_texts_calls_and_results_are_read_in_order() -> None:
    system, user, call, result, answer = bodies(samples("openai-chat")["chat.jsonl"])
    assert isinstance(system, MessageAdded)
    assert isinstance(user, MessageAdded)
    assert (system.role, user.role, user.text) == ("system", "user", "list the files")
    assert isinstance(call, CallMade)
    assert (call.call, call.tool, msgspec.json.decode(call.input)) == ("call_1", "shell", {"command": "ls"})
    assert isinstance(result, CallReturned)
    assert (result.call, msgspec.json.decode(result.output)) == ("call_1", "a.txt")
    assert isinstance(answer, MessageAdded)
    assert (answer.role, answer.text) == ("assistant", "There is one: a.txt")


def test_arguments_that_are_not_json_stay_the_text_they_are() -> None:
    line = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{x"}}],
    }
    [call] = bodies(msgspec.json.encode(line) + b"\n")
    assert isinstance(call, CallMade)
    assert msgspec.json.decode(call.input) == "{x"


def test_an_unknown_role_is_kept_verbatim() -> None:
    [body] = bodies(b'{"role":"narrator","content":"once"}\n')
    assert isinstance(body, Opaque)
    assert body.kind == "openai-chat.message"


@pytest.mark.parametrize("head", [b'{"type":"user"}', b'{"role":"robot","content":1}', b'{"content":1}', b"[]"])
def test_other_lines_are_not_taken_for_chat_messages(head: bytes) -> None:
    assert not recognises(PurePath("x.jsonl"), head)
