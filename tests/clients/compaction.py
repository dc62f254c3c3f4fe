"""How each client is made to compact a session: by its own command, its own server, or a limit that is reached."""

import json
import socket
import subprocess
import urllib.request

from clients.conversation import Conversation, put
from clients.drivers import MODEL, run
from clients.model_server import SUMMARY, ModelServer, scripted
from clients.wire import TOKENS_IN, Answer

# What a person types for it.
TYPED = {"claude-code": "/compact", "copilot-cli": "/compact", "qwen-code": "/compress"}
# Qwen Code keeps a summary only if it is shorter than what it stands for, as the usage of the last request says.
TOKENS = {"qwen-code": 60_000}


def compact(conversation: Conversation) -> None:
    """Have the client compact the session; where only a limit does it, at the beginning of a third turn."""
    runtime = conversation.client.runtime
    with ModelServer(side=SUMMARY, tokens=TOKENS.get(runtime, TOKENS_IN)) as model:
        if runtime in TYPED:
            argv = conversation.argv(TYPED[runtime])
        elif runtime == "opencode":
            _by_server(conversation, model.url)
            return
        elif runtime == "pi":
            _by_rpc(conversation, model.url)
            return
        else:
            prompt = scripted("Third.", Answer("Third döne."))
            conversation.prompts.append(prompt)
            argv = conversation.argv(prompt)
        if runtime == "codex":
            argv = [*argv[:-1], "-c", "model_auto_compact_token_limit=50", argv[-1]]
        conversation.settle(conversation.place, model.url)
        if runtime == "gemini-cli":
            settings = json.dumps({"model": {"compressionThreshold": 0.0001}})
            put(conversation.place.home / ".gemini/settings.json", settings, is_added=True)
        run(
            argv, cwd=conversation.place.cwd, env=conversation.environment(conversation.place, model.url),
            logs=conversation.place.logs,
        ).checked()  # fmt: skip


def _by_server(conversation: Conversation, url: str) -> None:
    """What OpenCode's own screen does for /compact: it asks the client's server for it."""
    place = conversation.place
    conversation.settle(place, url)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [conversation.client.binary, "serve", "--port", str(port)]
    serving = subprocess.Popen(
        argv, cwd=place.cwd, env=conversation.environment(place, url), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert serving.stdout is not None
        assert any("listening" in line for line in serving.stdout)
        address = f"http://127.0.0.1:{port}/session/{conversation.native}/summarize"
        body = json.dumps({"providerID": "scripted", "modelID": MODEL}).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  # our own address
            assert json.load(answer) is True
    finally:
        serving.terminate()
        serving.communicate()


def _by_rpc(conversation: Conversation, url: str) -> None:
    """What pi's own screen does for /compact, as a command of its protocol."""
    place = conversation.place
    conversation.settle(place, url)
    keep = json.dumps({"compaction": {"keepRecentTokens": 100}})
    put(place.home / ".pi/agent/settings.json", keep, is_added=False)
    argv = [*conversation.client.interactive_resume(conversation.native), "--provider", "scripted", "--model", MODEL]
    asked = subprocess.Popen(
        [*argv, "--mode", "rpc"], cwd=place.cwd, env=conversation.environment(place, url), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert asked.stdin is not None
    assert asked.stdout is not None
    try:
        asked.stdin.write(json.dumps({"type": "compact"}) + "\n")
        asked.stdin.flush()
        answers = (json.loads(line) for line in asked.stdout)
        assert next(answer for answer in answers if answer["type"] == "response")["success"]
    finally:
        asked.communicate(timeout=60)
