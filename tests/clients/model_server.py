"""A model server that answers what the prompt tells it to, and remembers every request.

One server serves one run of a client, on a port of its own, so that its requests are that run's. The script of a turn
is part of the prompt (see `scripted`): the server keeps no state between requests, and a resumed session, whose request
carries the earlier prompts too, is answered by its last one.
"""

import base64
import gzip
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from clients import wire
from clients.wire import Answer, Call, Item, Json, has_tools, seen

SCRIPT = re.compile(r"\[script:([\w=-]+)\]")
UNSCRIPTED = "Nothing was scripted for this."
SIDE = "A side answer."
SUMMARY = "The sümmary: two things were dōne."
# In the arguments of a call: the id that the last result names.
LAST_ID = "<the id in the last result>"
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Which function puts an answer, by how the path of the request ends.
ENDPOINTS = {
    "/messages": wire.anthropic,
    "/responses": wire.responses,
    "/chat/completions": wire.chat,
    ":generateContent": wire.gemini,
    ":streamGenerateContent": wire.gemini,
}
COUNTS = {
    "/messages/count_tokens": {"input_tokens": wire.TOKENS_IN},
    ":countTokens": {"totalTokens": wire.TOKENS_IN},
}


class Request(NamedTuple):
    path: str
    body: Json


def scripted(prompt: str, *answers: Answer) -> str:
    """A prompt that makes the server give these answers, one per request; the last one has no calls."""
    # Base64 without a quote or a space: clients quote, escape and wrap what they are given.
    packed = base64.urlsafe_b64encode(json.dumps(answers).encode()).decode()
    return f"{prompt} [script:{packed}]"


def answer_to(body: Json, side: str = SIDE) -> Answer:
    """The answer that a request's last scripted prompt asks for next: the first whose calls were not made yet.

    A request without tools gets a side answer; so does one whose last text is not scripted when it is a summary that is
    asked for.
    """
    items = seen(body)
    if not has_tools(body) or (side == SUMMARY and not _ends_scripted(items)):
        return Answer(side)
    script, made, last_id = "", 0, ""
    for item in items:
        if item.kind == "result" and (named := UUID.search(item.text)):
            last_id = named[0]
        if item.kind == "text" and item.role == "user" and (found := SCRIPT.findall(item.text)):
            script, made = found[-1], 0
        elif item.kind == "call":
            made += 1
    for text, calls, thought, _ in json.loads(base64.urlsafe_b64decode(script) or b"[]"):
        if made <= 0:
            return Answer(text, tuple(Call(tool, _with_id(arguments, last_id)) for tool, arguments in calls), thought)
        made -= len(calls)
    return Answer(UNSCRIPTED)


def _ends_scripted(items: list[Item]) -> bool:
    """Whether the request ends in a scripted turn, and not in a prompt of the client's own."""
    own = [item for item in items if item.role not in ("system", "developer")]
    texts = [item.text for item in own if item.kind == "text" and item.role == "user"]
    return bool(own) and (own[-1].kind != "text" or SCRIPT.search(texts[-1]) is not None)


def _with_id(arguments: Json, last_id: str) -> Json:
    packed = json.dumps(arguments)
    return json.loads(packed.replace(json.dumps(LAST_ID)[1:-1], last_id)) if LAST_ID in packed else arguments


class _Http(ThreadingHTTPServer):
    # The default takes 5 connections that wait to be accepted, and resets the sixth.
    request_queue_size = 128
    daemon_threads = True


class ModelServer:
    """A running server: `with ModelServer() as model: ... model.url`. `log` gets one JSON line per request.

    `side` answers what is not part of a turn (titles, summaries); `tokens` is how many each request is said to have.
    """

    def __init__(self, log: Path | None = None, *, side: str = SIDE, tokens: int = wire.TOKENS_IN) -> None:
        self._log = log
        self._side = side
        self._tokens = tokens
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._http = _Http(("127.0.0.1", 0), self._door())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far that had a body; its headers, which hold keys, are not kept."""
        with self._lock:
            return list(self._requests)

    def told(self, prompt: str) -> list[list[Item]]:
        """What the model was told in each main request of a turn: with tools, its last scripted prompt this one."""
        turns = [seen(request.body) for request in self.requests if has_tools(request.body)]
        return [items for items in turns if prompt in _last_scripted(items)]

    def _remember(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)
            if self._log:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(request._asdict(), ensure_ascii=False) + "\n")

    def _door(self) -> type[BaseHTTPRequestHandler]:
        remember, side, tokens = self._remember, self._side, self._tokens

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_HEAD(self) -> None:
                self._send(b"", "application/json")

            def do_GET(self) -> None:
                if not self._path.endswith("/models"):
                    self._send_json({"error": {"message": f"no {self._path} here"}}, status=404)
                    return
                entry = {"id": "scripted", "object": "model", "owned_by": "scripted"}
                self._send_json({"object": "list", "data": [entry], "models": [{"name": "models/scripted"}]})

            def do_POST(self) -> None:
                body = json.loads(self._body() or b"{}")
                remember(Request(self._path, body))
                for end, count in COUNTS.items():
                    if self._path.endswith(end):
                        self._send_json(count)
                        return
                for end, put in ENDPOINTS.items():
                    if self._path.endswith(end):
                        answer = answer_to(body, side)._replace(tokens=tokens)
                        whole, events = put(body.get("model", "scripted"), answer)
                        if body.get("stream") or "stream" in end:
                            self._send(_stream(events), "text/event-stream")
                        else:
                            self._send_json(whole)
                        return
                self._send_json({"error": {"message": f"no {self._path} here"}}, status=404)

            @property
            def _path(self) -> str:
                return self.path.partition("?")[0].rstrip("/")

            def _body(self) -> bytes:
                if "chunked" in self.headers.get("Transfer-Encoding", ""):
                    body = b"".join(self._chunks())
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

            def _chunks(self) -> list[bytes]:
                chunks = []
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return chunks

            def _send_json(self, value: Any, *, status: int = 200) -> None:
                self._send(json.dumps(value).encode(), "application/json", status=status)

            def _send(self, data: bytes, kind: str, *, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Door


def _last_scripted(items: list[Item]) -> str:
    texts = [item.text for item in items if item.kind == "text" and item.role == "user" and SCRIPT.search(item.text)]
    return texts[-1] if texts else ""


def _stream(events: wire.Events) -> bytes:
    """Server-sent events: a name, when the format has one, and the data."""
    lines = []
    for name, data in events:
        lines.append(f"event: {name}\n" if name else "")
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    return "".join(lines).encode()
