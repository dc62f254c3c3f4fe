"""Small session files of every runtime and format, made up or made by the real clients: `samples(name)`.

They are what the adapters are checked with (test_conformance.py) and what fuzzing begins with (fuzz/).
"""

import base64
import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from clew.model.events import CallMade, CallReturned, Compacted, Event, MessageAdded, Opaque, Rewound
from clew.runtimes.adapters.clew_lines import embed
from clew.runtimes.adapters.clew_lines import lines as event_lines
from clew.runtimes.contract import raw
from support import claude
from support.opencode import database

FIXTURES = Path(__file__).parent.parent / "runtimes" / "fixtures"
AT = "2026-11-16T10:00:00.000Z"
MS = 1_794_823_200_000
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nnot really").decode()
UUID = "11111111-2222-4333-8444-555555555555"


def samples(name: str) -> dict[str, bytes]:
    """The sample files of a runtime, each under its path below the runtime's home."""
    from support import program_samples  # It uses what is here.

    return {**SAMPLES, **program_samples.SAMPLES}[name]()


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def bytes_of(connection: sqlite3.Connection) -> bytes:
    """The file that a database would be."""
    with closing(connection):
        connection.commit()
        return connection.serialize()


# Made by the real clients ---------------------------------------------------------------------------------------------


def claude_code() -> dict[str, bytes]:
    session = "27399200-c235-4466-853c-ce946346ddd1"
    return {
        f"projects/-home-me-app/{claude.SESSION}.jsonl": claude.lines(claude.story()),
        f"projects/-home-me-app/{session}.jsonl": fixture("claude_code/session.jsonl"),
        f"projects/-home-me-app/{session}/subagents/agent-aa3518c5952166186.jsonl": fixture(
            "claude_code/subagent.jsonl"
        ),
    }


def codex() -> dict[str, bytes]:
    names = ("tools", "fork", "reverted", "subagent")
    folder = "sessions/2026/11/16/rollout-2026-11-16T10-00-0"
    return {f"{folder}{i}-{UUID[:-1]}{i}.jsonl": fixture(f"codex/{name}.jsonl") for i, name in enumerate(names)}


def gemini_cli() -> dict[str, bytes]:
    head, *messages = [json.loads(line) for line in fixture("gemini_cli/resumed.jsonl").splitlines()]
    newest = {message["id"]: message for message in messages if "id" in message}
    document = {**head, "messages": [*newest.values()]}
    return {
        "tmp/app/chats/session-2026-11-16T10-00-11111111.jsonl": fixture("gemini_cli/resumed.jsonl"),
        "tmp/app/chats/session-2026-11-16T10-00-22222222.jsonl": fixture("gemini_cli/compacted.jsonl"),
        "tmp/app/chats/session-2026-11-16T10-00-33333333.json": json.dumps(document, indent=2).encode(),
    }


def opencode() -> dict[str, bytes]:
    def piece(type: str, **data: Any) -> dict[str, Any]:
        return {"type": type, "data": data}

    roles = ("user", "assistant", "tool", "assistant")
    parts = [
        [piece("text", text="go"), piece("binary", Path="/x/a.png", MIMEType="image/png", Data=PNG)],
        [piece("reasoning", thinking="hm"), piece("tool_call", id="c1", name="bash", input='{"command":"ls"}')],
        [piece("tool_result", tool_call_id="c1", content="a", is_error=False)],
        [piece("text", text="done"), piece("finish", reason="end_turn")],
    ]
    go = {
        "sessions": [{"id": "s1", "parent_session_id": None, "title": "Old", "created_at": 1_751_116_165,
                      "updated_at": 1, "summary_message_id": "m4"}],
        "messages": [{"id": f"m{i}", "session_id": "s1", "role": role, "model": "m", "created_at": 1_751_116_165,
                      "updated_at": 1, "parts": json.dumps(one)}
                     for i, (role, one) in enumerate(zip(roles, parts, strict=True))],
        "files": [{"id": "f1", "session_id": "s1", "path": "/a", "content": "a", "created_at": 1_751_116_165}],
        "goose_db_version": [{"id": 1}],
    }  # fmt: skip
    return {
        "opencode.db": bytes_of(database(json.loads(fixture("opencode/rows.json")))),
        ".opencode/opencode.db": bytes_of(database(go)),
        "export.json": fixture("opencode/export.json"),
        "export_subagent.json": fixture("opencode/export_subagent.json"),
    }


# Made up --------------------------------------------------------------------------------------------------------------


def cursor() -> dict[str, bytes]:
    transcript = lines(
        {"role": "user", "message": {"content": [text("<user_query>\nlist files\n</user_query>")]}},
        {"role": "assistant", "message": {"content": [
            text("I look."), {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}]}},
        {"type": "turn_ended", "status": "success"},
    )  # fmt: skip
    return {
        ".cursor/projects/home-me-app/agent-transcripts/s-1.jsonl": transcript,
        ".cursor/chats/aa/s-1/store.db": _cursor_cli(),
        ".config/Cursor/User/globalStorage/state.vscdb": _cursor_ide(),
    }


def _cursor_cli() -> bytes:
    messages = (
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": [text("<user_query>\nyes\n</user_query>"), {"type": "image", "image": PNG}]},
        {"role": "assistant", "id": "1", "content": [
            {"type": "reasoning", "text": "a listing", "signature": "sig"}, text("I look."),
            {"type": "tool-call", "toolCallId": "c1", "toolName": "Shell", "args": {"command": "ls"}}]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "c1", "toolName": "Shell", "result": "a.txt"}]},
    )  # fmt: skip
    root, blobs = b"", []
    for message in messages:
        data = json.dumps(message).encode()
        blobs.append({"id": hashlib.sha256(data).hexdigest(), "data": data})
        root += b"\x0a\x20" + hashlib.sha256(data).digest()
    blobs.append({"id": hashlib.sha256(root).hexdigest(), "data": root})
    meta = {"agentId": "s-1", "latestRootBlobId": blobs[-1]["id"], "name": "Files", "createdAt": MS}
    held = {"meta": [{"key": "0", "value": json.dumps(meta).encode().hex()}], "blobs": blobs}
    return bytes_of(database(held))


def _cursor_ide() -> bytes:
    call = {
        "name": "list_dir",
        "toolCallId": "c1",
        "rawArgs": '{"path": "."}',
        "result": '{"files": []}',
        "status": "ok",
    }
    values = {
        "composerData:k-1": {
            "_v": 10, "composerId": "k-1", "createdAt": MS, "name": "Files", "modelConfig": {"modelName": "m-1"},
            "fullConversationHeadersOnly": [{"bubbleId": one, "type": 1} for one in ("b1", "b2", "b3")],
        },
        "bubbleId:k-1:b1": {"_v": 3, "type": 1, "bubbleId": "b1", "text": "list", "createdAt": AT},
        "bubbleId:k-1:b2": {"type": 2, "bubbleId": "b2", "text": "I look.", "thinking": {"text": "hm"},
                            "tokenCount": {"inputTokens": 9, "outputTokens": 4}},
        "bubbleId:k-1:b3": {"type": 2, "bubbleId": "b3", "text": "", "toolFormerData": call},
    }  # fmt: skip
    rows = [{"key": key, "value": json.dumps(value)} for key, value in values.items()]
    return bytes_of(database({"cursorDiskKV": rows, "ItemTable": [{"key": "x", "value": "y"}]}))


def droid() -> dict[str, bytes]:
    def said(id: str, role: str, *content: Any, parent: str | None = None) -> dict[str, Any]:
        message = {"role": role, "content": list(content), "modelId": "m-1"}
        return {"type": "message", "id": id, "parentId": parent, "timestamp": AT, "message": message}

    use = {"type": "tool_use", "id": "c1", "name": "LS", "input": {"directory_path": "/home/me/app"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    back = {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt", "is_error": True}
    session = lines(
        {"type": "session_start", "id": "s-1", "title": "New Session", "owner": "me", "cwd": "/home/me/app"},
        said("u1", "user", text("<system-reminder>\nbe good\n</system-reminder>"), text("list the files"), image),
        said("a1", "assistant", {"type": "thinking", "thinking": "hm"}, text("I look."), use, parent="u1"),
        said("r1", "user", back, parent="a1"),
        said("a2", "assistant", text("One file."), parent="r1"),
        {"type": "todo_state", "id": "t1", "timestamp": AT, "todos": {"todos": "1. [done] look"}},
        {"type": "compaction_state", "id": "k1", "timestamp": AT, "summaryText": "s", "anchorMessage": {"id": "a2"}},
    )  # fmt: skip
    stream = lines(
        {"type": "system", "subtype": "init", "cwd": "/home/me/app", "session_id": "s-2", "tools": ["LS"]},
        {"type": "message", "role": "user", "id": "u1", "text": "list", "timestamp": MS, "session_id": "s-2"},
        {"type": "message", "role": "assistant", "id": "a1", "text": "I look.", "timestamp": MS},
        {"type": "tool_call", "id": "c1", "messageId": "a1", "toolId": "LS", "toolName": "LS", "parameters": {"x": 1}},
        {"type": "tool_result", "id": "c1", "messageId": "r1", "toolId": "", "isError": False, "value": "a.txt"},
        {"type": "completion", "finalText": "One file.", "numTurns": 2, "session_id": "s-2"},
    )
    return {"sessions/-home-me-app/s-1.jsonl": session, "s-2.jsonl": stream}


def kimi() -> dict[str, bytes]:
    def loop(type: str, **about: Any) -> dict[str, Any]:
        return {"type": "context.append_loop_event", "event": {"type": type, "turnId": "0", **about}, "time": MS}

    def wire(type: str, /, **payload: Any) -> dict[str, Any]:
        return {"timestamp": MS / 1000, "message": {"type": type, "payload": payload}}

    prompt = {"role": "user", "content": [text("list")], "toolCalls": [], "origin": {"kind": "user"}}
    tokens = {"inputOther": 10, "output": 3, "inputCacheRead": 20, "inputCacheCreation": 4}
    code = lines(
        {"type": "metadata", "protocol_version": "1.4", "created_at": MS},
        {"type": "config.update", "modelAlias": "maker/m-1", "cwd": "/home/me/app", "time": MS},
        {"type": "context.append_message", "message": prompt, "time": MS},
        loop("content.part", uuid="s1-think", stepUuid="s1", part={"type": "think", "think": "a listing"}),
        loop("content.part", uuid="s1-text", stepUuid="s1", part=text("I look.")),
        loop("tool.call", uuid="B_0", stepUuid="s1", toolCallId="B_0", name="Bash", args={"command": "ls"}),
        loop("tool.result", parentUuid="B_0", toolCallId="B_0", result={"output": "no", "isError": True}),
        {"type": "usage.record", "model": "maker/m-1", "usage": tokens, "usageScope": "turn", "time": MS},
        {"type": "context.apply_compaction", "summary": "short", "compactedCount": 2, "time": MS},
    )
    call = {"name": "Shell", "arguments": '{"command": "ls"}'}
    cli = lines(
        {"type": "metadata", "protocol_version": "1.2"},
        wire("TurnBegin", user_input="list"),
        wire("StepBegin", n=1),
        wire("ContentPart", type="text", text="I look."),
        wire("ToolCall", type="function", id="c1", function=call),
        wire("StatusUpdate", context_usage=0.1, token_usage={"input_other": 5, "output": 2, "input_cache_read": 1}),
        wire("ToolResult", tool_call_id="c1", return_value={"is_error": False, "output": "a.txt", "message": ""}),
        wire("SubagentEvent", task_tool_call_id="c3", event={"type": "ContentPart", "payload": text("sub")}),
        wire("TurnEnd"),
    )
    context = lines(
        {"role": "_checkpoint", "id": 0},
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": [text("I look.")], "tool_calls": [{"id": "c1", "function": call}]},
        {"role": "tool", "content": [text("a.txt")], "tool_call_id": "c1"},
        {"role": "_usage", "token_count": 99},
    )
    return {
        ".kimi-code/sessions/app_aa/s-1/agents/main/wire.jsonl": code,
        ".kimi/sessions/aa/s-2/wire.jsonl": cli,
        ".kimi/sessions/aa/context.jsonl": context,
    }


def cline() -> dict[str, bytes]:
    task = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1794823200000"
    use = {"type": "tool_use", "id": "c1", "name": "list_files", "input": {"path": "."}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    conversation = [
        {"role": "user", "ts": MS, "content": [text("<task>\nlist\n</task>"), image, text("<environment_details>\nx")]},
        {"role": "assistant", "ts": MS, "content": [text("I look."), use], "modelInfo": {"modelId": "m-1"},
         "metrics": {"tokens": {"prompt": 30, "completion": 4, "cached": 20}, "cost": 0.01}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [text("a.txt")]}]},
        {"role": "assistant", "content": "One file."},
    ]  # fmt: skip
    shown = [
        {"ts": MS, "type": "say", "say": "text", "text": "list"},
        {"ts": MS, "type": "say", "say": "api_req_started", "text": '{"request":"x","tokensIn":10,"cost":0.01}'},
        {"ts": MS, "type": "ask", "ask": "completion_result", "text": ""},
        {"ts": MS, "type": "say", "say": "api_req_started", "text": '{"request":"y","tokensIn":1}'},
    ]
    return {
        f"{task}/api_conversation_history.json": json.dumps(conversation).encode(),
        f"{task}/ui_messages.json": json.dumps(shown).encode(),
    }


def swe_agent() -> dict[str, bytes]:
    call = {"id": "c1", "function": {"name": "edit", "arguments": '{"path":"a.txt"}'}}
    document = {
        "environment": "main",
        "trajectory": [{"action": "ls\n", "observation": "a.txt", "response": "r", "query": [{"x": 1}]}],
        "history": [
            {"role": "system", "content": "You are a programmer.", "agent": "primary"},
            {"role": "user", "content": "An example.", "is_demo": True},
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "ls\n"},
            {"role": "user", "content": "a.txt"},
            {"role": "assistant", "content": "I edit.", "tool_calls": [call],
             "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "sig"}]},
            {"role": "tool", "content": [text("1 x")], "tool_call_ids": ["c1"]},
        ],
        "info": {"exit_status": "submitted", "model_stats": {"instance_cost": 0.5, "tokens_sent": 100}},
    }  # fmt: skip
    return {"trajectories/me/run-1/fix-7/fix-7.traj": json.dumps(document).encode()}


def atif() -> dict[str, bytes]:
    call = {"tool_call_id": "c1", "function_name": "shell", "arguments": {"command": "ls"}}
    document = {
        "schema_version": "ATIF-v1.5",
        "session_id": "s-1",
        "agent": {"name": "codex", "version": "0.1", "model_name": "m-1"},
        "steps": [
            {"step_id": 1, "timestamp": AT, "source": "system", "message": "Be brief."},
            {"step_id": 2, "timestamp": AT, "source": "user", "message": "list"},
            {"step_id": 3, "timestamp": AT, "source": "agent", "message": "I look.", "reasoning_content": "a listing",
             "tool_calls": [call], "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
             "metrics": {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 20, "cost_usd": 0.01}},
            {"step_id": 4, "source": "agent", "model_name": "m-2", "message": "One file."},
        ],
        "final_metrics": {"total_prompt_tokens": 30, "total_steps": 4},
    }  # fmt: skip
    return {"runs/task-1/trajectory.json": json.dumps(document).encode()}


def aider() -> dict[str, bytes]:
    history = (
        "\n# aider chat started at 2026-11-16 10:00:00\n\n> Aider v0.86.1  \n> Main model: m-1 with diff format  \n\n"
        "#### /add a.txt  \n> Added a.txt to the chat  \n\n#### list the files  \n####   \n#### please  \n\n"
        "Here they are:\n\n```\n> a quote in a file\n```\n\n"
        "> Tokens: 12k sent, 1.5k received. Cost: $0.04 message, $0.11 session.  \n\n#### thanks  \n\nWelcome.\n\n"
        "# aider chat started at 2026-11-16 11:00:00\n\n> Aider v0.87.0  \n\n#### again  \n"
    )
    return {".aider.chat.history.md": history.encode()}


def interchange() -> dict[str, bytes]:
    when = {"createdAt": AT}
    records = lines(
        {"type": "session", "version": 1, "externalId": "x-1", **when, "source": {"application": "other"},
         "workspace": {"workingDirectory": "/home/me/app"}, "title": "Files"},
        {"type": "message", "id": "1", **when, "role": "user", "content": "list"},
        {"type": "message", "id": "2", **when, "role": "assistant", "turnId": "t", "content": "I look.", "model": "m"},
        {"type": "tool-call", "id": "3", **when, "turnId": "t", "name": "shell", "arguments": {"command": "ls"}},
        {"type": "tool-result", "id": "4", **when, "turnId": "t", "toolCallId": "3", "success": True, "content": "a"},
    )  # fmt: skip
    return {"import.jsonl": records}


def openai_chat() -> dict[str, bytes]:
    call = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
    return {
        "chat.jsonl": lines(
            {"role": "system", "content": "You help."},
            {"role": "user", "content": [text("list the files")]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
            {"role": "assistant", "content": "There is one: a.txt"},
        )
    }


def clew() -> dict[str, bytes]:
    session = "0abcdefghjkmnpqrstvw"
    bodies = [
        MessageAdded(role="user", text="list"),
        CallMade(call="c", tool="shell", input=raw({"command": "ls"})),
        CallReturned(call="c", output=raw("a.txt")),
        Compacted(summary="short", keep="2"),
        Rewound(to="1"),
        Opaque(kind="codex.turn_context", raw='{"a": 1.50}'),
    ]
    events = [
        Event(session, i, i, MS * 1000 + i, None, "person:me", str(i) if i % 2 else None, b"", body)
        for i, body in enumerate(bodies, 1)
    ]
    page = b"".join(embed([b"<!doctype html><!-- clew:session --><p>a page</p>"], events))
    return {f"{session}.jsonl": b"".join(event_lines(events)), f"{session}.html": page}


SAMPLES = {
    "qwen-code": lambda: {f"projects/-home-me-app/chats/{UUID}.jsonl": fixture("qwen_code/session.jsonl")},
    "gemini-cli": gemini_cli,
    "claude-code": claude_code,
    "codex": codex,
    "copilot-cli": lambda: {f"session-state/{UUID}/events.jsonl": fixture("copilot_cli/events.jsonl")},
    "opencode": opencode,
    "pi": lambda: {f"sessions/--home-me-app--/2026-11-16T10-00-00-000Z_{UUID}.jsonl": fixture("pi/tree.jsonl")},
    "cursor": cursor,
    "droid": droid,
    "kimi": kimi,
    "cline": cline,
    "swe-agent": swe_agent,
    "atif": atif,
    "aider": aider,
    "copilot-interchange": interchange,
    "clew": clew,
    "openai-chat": openai_chat,
    "unknown": lambda: {"x.jsonl": lines({"a": 1}, {"b": [2, {"c": None}]})},
}
