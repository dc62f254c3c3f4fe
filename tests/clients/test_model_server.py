"""The scripted model: the same script and the same reading in each of the four formats, whole and as a stream."""

import gzip
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from clients.model_server import UNSCRIPTED, ModelServer, scripted
from clients.told import Told, in_request
from clients.wire import Answer, Call, Item, Json, seen

FIRST, SECOND, THIRD = Call("ls", {"path": "ä b"}), Call("cat", {"n": 1}), Call("cat", {"n": 2})
PROMPT = scripted("Do it 🧵.", Answer("Lōok.", (FIRST,)), Answer("", (SECOND, THIRD)), Answer("Done."))

SAID = [
    Told("user", PROMPT),
    Told("assistant", "Lōok."),
    Told("call", "", *FIRST, number=1),
    Told("result", "one", number=1),
    Told("call", "", *SECOND, number=2),
    Told("call", "", *THIRD, number=3),
    Told("result", "two", number=2),
    Told("result", "three", number=3),
]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


class Anthropic:
    """A minimal client of one format: it keeps a conversation as that format has it."""

    path = "/v1/messages"
    tools: ClassVar[Json] = {"tools": [{"name": "ls"}]}

    def __init__(self) -> None:
        self.history: list[Json] = []

    def body(self) -> Json:
        return {"model": "m", "messages": self.history}

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def take(self, whole: Json, results: list[str]) -> None:
        """Take an answer and the results of its calls into the conversation."""
        self.history.append({"role": "assistant", "content": whole["content"]})
        calls = [block for block in whole["content"] if block["type"] == "tool_use"]
        given = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": result}]}
            for call, result in zip(calls, results, strict=True)
        ]
        self.history.append({"role": "user", "content": given})

    def streamed(self, events: list[Json]) -> list[str]:
        """The texts and the arguments that a stream adds up to."""
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        return [delta.get("text") or delta["partial_json"] for delta in deltas]


class Responses(Anthropic):
    path = "/v1/responses"

    def body(self) -> Json:
        return {"model": "m", "input": self.history}

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": [{"type": "input_text", "text": text}]})

    def take(self, whole: Json, results: list[str]) -> None:
        self.history += whole["output"]
        calls = [item for item in whole["output"] if item["type"] == "function_call"]
        for call, result in zip(calls, results, strict=True):
            self.history.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})

    def streamed(self, events: list[Json]) -> list[str]:
        return [event["delta"] for event in events if event["type"].endswith(".delta")]


class Chat(Anthropic):
    path = "/v1/chat/completions"

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def take(self, whole: Json, results: list[str]) -> None:
        message = whole["choices"][0]["message"]
        self.history.append(message)
        for call, result in zip(message["tool_calls"], results, strict=True):
            self.history.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    def streamed(self, events: list[Json]) -> list[str]:
        deltas = [event["choices"][0]["delta"] for event in events]
        texts = [delta["content"] for delta in deltas if delta.get("content")]
        return texts + [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", ())]


class Gemini(Anthropic):
    path = "/v1beta/models/m:generateContent"
    tools: ClassVar[Json] = {"tools": [{"functionDeclarations": []}]}

    def body(self) -> Json:
        return {"contents": self.history}

    def say(self, text: str) -> None:
        self.history.append({"role": "user", "parts": [{"text": text}]})

    def take(self, whole: Json, results: list[str]) -> None:
        content = whole["candidates"][0]["content"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        for call in calls:
            # The client gives the ids.
            call["id"] = f"{call['name']}-{len(self.history)}-{call['args']}"
        given = [
            {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": result}}}
            for call, result in zip(calls, results, strict=True)
        ]
        self.history += [content, {"role": "user", "parts": given}]

    def streamed(self, events: list[Json]) -> list[str]:
        parts = events[0]["candidates"][0]["content"]["parts"]
        return [part.get("text") or json.dumps(part["functionCall"]["args"]) for part in parts]


FORMATS = pytest.mark.parametrize("format", [Anthropic, Responses, Chat, Gemini])


def post(url: str, body: Json, **headers: str) -> str:
    data = json.dumps(body).encode()
    if headers.get("content_encoding") == "gzip":
        data = gzip.compress(data)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:  # noqa: S310
        return str(answer.read().decode())


@FORMATS
def test_a_script_is_played_call_by_call_and_read_back(model: ModelServer, format: type[Anthropic]) -> None:
    talk = format()
    talk.say(PROMPT)
    for results in (["one"], ["two", "three"]):
        talk.take(json.loads(post(model.url + talk.path, talk.body() | talk.tools)), results)
    last = post(model.url + talk.path, talk.body() | talk.tools)

    assert in_request(seen(model.requests[-1].body), [PROMPT]) == SAID
    assert "Done." in last
    assert "call" not in [item.kind for item in seen(model.requests[0].body)]


@FORMATS
def test_a_stream_adds_up_to_the_answer(model: ModelServer, format: type[Anthropic]) -> None:
    talk = format()
    talk.say(scripted("Hi.", Answer("Lōok.", (SECOND, THIRD)), Answer("Done.")))
    path = talk.path.replace(":generate", ":streamGenerate")
    stream = post(model.url + path, talk.body() | talk.tools | {"stream": True})
    data = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    events = [json.loads(one) for one in data if one != "[DONE]"]
    assert talk.streamed(events) == ["Lōok.", '{"n": 1}', '{"n": 2}']


@FORMATS
def test_a_side_request_gets_no_call(model: ModelServer, format: type[Anthropic]) -> None:
    talk = format()
    talk.say(PROMPT)
    assert "side answer" in post(model.url + talk.path, talk.body())
    assert model.told(PROMPT) == []


@FORMATS
def test_the_last_script_is_the_one_that_counts(model: ModelServer, format: type[Anthropic]) -> None:
    talk = format()
    talk.say(PROMPT)
    talk.take(json.loads(post(model.url + talk.path, talk.body() | talk.tools)), ["one"])
    talk.say(scripted("Next.", Answer("Next is done.")))
    assert "Next is done." in post(model.url + talk.path, talk.body() | talk.tools)
    talk = format()
    talk.say("No script at all.")
    assert UNSCRIPTED in post(model.url + talk.path, talk.body() | talk.tools)


def test_results_in_another_order_are_told_in_the_order_of_their_calls() -> None:
    items = [
        Item("text", "user", text="before"),
        Item("text", "user", text=f'<context>"{PROMPT}"'),
        *(Item("call", "assistant", "cat", {}, call=call) for call in "abc"),
        *(Item("result", "tool", text=call, call=call) for call in "cab"),
    ]
    assert [one.text for one in in_request(items, [PROMPT]) if one.kind == "result"] == ["a", "b", "c"]
    assert in_request(items, [PROMPT])[0] == Told("user", PROMPT)


def test_many_requests_at_once_are_all_remembered(model: ModelServer) -> None:
    bodies = [{"messages": [{"role": "user", "content": str(n)}]} for n in range(64)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda body: post(model.url + Chat.path, body), bodies))
    assert sorted(seen(request.body)[0].text for request in model.requests) == sorted(map(str, range(64)))


def test_requests_are_logged_without_their_headers(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with ModelServer(log) as model:
        post(model.url + Chat.path, {"messages": []}, Authorization="secret", content_encoding="gzip")
    assert json.loads(log.read_text()) == {"path": Chat.path, "body": {"messages": []}}
