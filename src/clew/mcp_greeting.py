"""The beginning of an MCP conversation, answered from a cache: agent programs wait for it whenever they start.

Loading the server takes half a second. What a program asks for first (`initialize`, the lists of tools and prompts) has
the same answer each time, so `clew mcp` keeps the answers of the server and gives them without loading it. The list of
resources names sessions; clew makes it anew, without the SDK. The first other request loads the server, which continues
the conversation.

This module imports only the standard library: loading the rest of clew is what takes the time. An answer is valid for
the protocol version that the program asked for, and while no file of clew or of the SDK has changed.
"""

import json
import os
import sys

TYPE_CHECKING = False  # Importing typing takes longer than answering.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

NAME = "mcp-answers.json"
# The requests whose answers do not depend on what is stored.
METHODS = ("initialize", "tools/list", "prompts/list", "resources/templates/list")
MOST_ANSWERS = 100


class Begun:
    """A conversation that has begun: the client's end of it, lines to read first, and requests with an answer."""

    def __init__(self) -> None:
        self.wire: BinaryIO | None = None
        self.first: list[bytes] = []
        self.answered: list[Any] = []
        self.version = ""


# What greet() has read; the server continues from here.
begun = Begun()


def greet(home: str, list_resources: "Callable[[], dict[str, Any] | None]") -> bool:
    """Answer what can be answered without the server; False once the client has closed the conversation.

    `list_resources` gives the first page of resources, or None to leave it to the server.
    """
    answers = cached_answers(home)
    if not answers or os.isatty(0):
        return True
    wire = begun.wire = claim_input()
    while line := wire.readline():
        request = _request(line)
        method = request.get("method")
        if method == "ping":
            result: Any = {}
        elif method == "resources/list" and not request.get("params"):
            result = list_resources()
        else:
            result = answers.get(key(begun, request))
        if result is not None and "id" in request:
            _answer(request["id"], result)
            if method == "initialize":
                begun.first, begun.answered = [line], [request["id"]]
        elif method == "notifications/initialized":
            begun.first.append(line)
        else:
            begun.first.append(line)
            return True
    return False


def claim_input() -> "BinaryIO":
    """Take over standard input, so that nothing else in this process reads from the client."""
    wire = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return wire


def key(conversation: Begun, request: "dict[str, Any]") -> str:
    """The name of a request's answer in the cache; empty if its answer is not cached."""
    method, params = request.get("method"), request.get("params")
    if method not in METHODS or not isinstance(params, dict | None):
        return ""
    asked = params or {}
    if method == "initialize":
        # The answer does not depend on who asks.
        conversation.version = str(asked.get("protocolVersion"))
        asked = {}
    return json.dumps([method, conversation.version, asked], sort_keys=True)


def cached_answers(home: str) -> "dict[str, Any]":
    """The cached answers, if they are valid."""
    try:
        with open(os.path.join(home, NAME), encoding="utf-8") as file:
            cache = json.load(file)
        answers = cache["answers"] if cache["stamp"] == stamp() else {}
        return answers if isinstance(answers, dict) else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # There is no cache, or it is damaged.


def save_answers(home: str, answers: "dict[str, Any]") -> None:
    """Add answers to the cache."""
    known = cached_answers(home)
    if len(known) > MOST_ANSWERS:
        known = {}
    path = os.path.join(home, NAME)
    new_path = f"{path}.{os.getpid()}"
    try:
        with open(os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"stamp": stamp(), "answers": known | answers}, file)
        os.replace(new_path, path)
    except OSError:
        # The home does not exist, is full or is read-only. Without a cache the server answers.
        from contextlib import suppress

        with suppress(OSError):
            os.unlink(new_path)


def stamp() -> list[object]:
    """What the answers depend on: the code of clew and of the SDK, and the store."""
    from clew import __version__

    newest = count = 0
    folders = [os.path.dirname(os.path.abspath(__file__))]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith((".py", ".sql")):
                    newest, count = max(newest, entry.stat().st_mtime_ns), count + 1
    sdk = [_changed_at(os.path.join(folder, "mcp", "server")) for folder in sys.path]
    return [__version__, sys.version, newest, count, [at for at in sdk if at], os.environ.get("CLEW_STORE", "")]


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0


def _request(line: bytes) -> "dict[str, Any]":
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return {}  # The server says what is wrong with it.
    return request if isinstance(request, dict) else {}


def _answer(id: object, result: object) -> None:
    data = (json.dumps({"jsonrpc": "2.0", "id": id, "result": result}, separators=(",", ":")) + "\n").encode()
    while data:
        data = data[os.write(1, data) :]
