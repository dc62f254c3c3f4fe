"""The conversations that every writer is checked with."""

import json
from typing import Any

from blake3 import blake3
from msgspec import Raw

from clew.model.events import CallMade, CallReturned, Draft, ImagePart, MessageAdded, RuntimeAttached, TextPart
from clew.runtimes.contract import Runtime, Tool

CWD = "/home/me/app"
AT = 1_794_823_200_000_000


def picture_of(digest: str) -> bytes:
    """Some bytes for any digest: a writer only copies them."""
    return b"\x89PNG\r\n\x1a\n" + digest.encode()


def story(runtime: Runtime) -> list[Draft]:
    """A conversation with everything a writer has to write: parallel calls, a failure, an image, Unicode."""
    shell = runtime.tools.get("shell", Tool("run", {"command": "command"}))
    command = shell.arguments.get("command", "command")
    picture = picture_of("")
    blob = blake3(picture).hexdigest()

    def call(id: str, words: str, message: str) -> CallMade:
        return CallMade(call=id, tool=shell.name, input=Raw(json.dumps({command: words}).encode()), message=message)

    bodies: list[Any] = [
        RuntimeAttached(runtime=runtime.name, native="n", cwd=CWD),
        MessageAdded(role="user", text="list the files für mich 🧵\nand tell me"),
        MessageAdded(role="assistant", text="I look.", message="m1", model="a-model"),
        call("call_1", "ls", "m1"),
        call("call_2", "cat nothing", "m1"),
        CallReturned(call="call_1", output=Raw(b'"a.txt\\n\\u00fcber.txt"')),
        CallReturned(call="call_2", output=Raw(b'"no such file"'), failed=True),
        MessageAdded(role="assistant", text="Two files.", message="m2"),
        call("call_3", "true", "m2"),
        CallReturned(call="call_3", output=Raw(b'"done"')),
        MessageAdded(role="assistant", text='Done: {"a": "<b>"} \\ \t.', message="m3"),
        MessageAdded(role="user", parts=(TextPart(text="and this?"), ImagePart(blob=blob, media_type="image/png"))),
        MessageAdded(role="assistant", text="A picture.", message="m4"),
    ]
    return [Draft(body=body, source=f"s{i}", said_at=AT + i * 1000) for i, body in enumerate(bodies)]


def hostile_story() -> list[Draft]:
    """Texts, names and ids that a file name, a terminal or a format may not support."""
    odd = ["../../x", "a\0b", "\x1b[31m", "\u2028\r\n", "ü" * 300, "~", "-rf", "]]>", "```"]
    bodies: list[Any] = []
    for i, word in enumerate(odd):
        bodies += [
            MessageAdded(role="user" if i % 3 else "system", text=word),
            MessageAdded(role="assistant", text=word, message=f"m{i}"),
            CallMade(call=word, tool=word, input=Raw(json.dumps([word]).encode()), message=f"m{i}"),
            CallReturned(call=word, output=Raw(json.dumps({word: word}).encode())),
        ]
    return [Draft(body=body, source=f"s{i}", said_at=0 if i else -1) for i, body in enumerate(bodies)]
