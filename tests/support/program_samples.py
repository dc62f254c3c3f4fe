"""Small session files of programs that clew reads and does not write, made up from what is public of their forms."""

import json
from typing import Any

import zstandard

from support.opencode import database
from support.samples import AT, MS, PNG, UUID, bytes_of, lines, text

DATA_URL = f"data:image/png;base64,{PNG}"
SECONDS = MS // 1000


def antigravity() -> dict[str, bytes]:
    def step(index: int, source: str, type: str, **more: Any) -> dict[str, Any]:
        return {"step_index": index, "source": source, "type": type, "status": "DONE", "created_at": AT, **more}

    call = {"name": "list_dir", "args": {"DirectoryPath": '"/home/me/app"'}}
    steps = lines(
        step(0, "USER_EXPLICIT", "USER_INPUT",
             content="<USER_REQUEST>\nlist the files\n</USER_REQUEST>\n<ADDITIONAL_METADATA>x</ADDITIONAL_METADATA>"),
        step(1, "SYSTEM", "CONVERSATION_HISTORY"),
        step(2, "MODEL", "PLANNER_RESPONSE", thinking="a listing", content="I look.", tool_calls=[call]),
        step(3, "MODEL", "LIST_DIRECTORY", content='{"name":"a.txt"}\n'),
        step(4, "MODEL", "RUN_COMMAND", content="no such file", status="ERROR"),
        step(5, "MODEL", "PLANNER_RESPONSE", content="One file."),
        step(6, "SYSTEM", "CHECKPOINT", content="# Resuming"),
    )  # fmt: skip
    return {f"antigravity-cli/brain/{UUID}/.system_generated/logs/transcript.jsonl": steps}


def kiro() -> dict[str, bytes]:
    def line(kind: str, id: str, *content: Any, **more: Any) -> dict[str, Any]:
        return {"version": "v1", "kind": kind, "data": {"message_id": id, "content": list(content), **more}}

    use = {"kind": "toolUse", "data": {"toolUseId": "t1", "name": "shell", "input": {"command": "ls"}}}
    output = {"kind": "json", "data": {"exit_status": "exit status: 0", "stdout": "a.txt"}}
    back = {"kind": "toolResult", "data": {"toolUseId": "t1", "content": [output], "status": "success"}}
    thought = {"kind": "thinking", "data": {"text": "a listing", "signature": "sig"}}
    session = lines(
        line("Prompt", "m1", {"kind": "text", "data": "list the files"}, meta={"timestamp": SECONDS}),
        line("AssistantMessage", "m2", thought, {"kind": "text", "data": "I look."}, use),
        line("ToolResults", "m3", back, results={"t1": {"tool": None}}),
        line("AssistantMessage", "m4", {"kind": "text", "data": "One file."}),
        line("Compaction", "m5"),
    )
    history = {"history": [
        {"user": {"content": {"Prompt": {"prompt": "list the files"}}, "timestamp": AT},
         "assistant": {"ToolUse": {"message_id": "a1", "content": "I look.", "tool_uses": [
             {"id": "t1", "name": "execute_bash", "args": {"command": "ls"}}]}}},
        {"user": {"content": {"ToolUseResults": {"tool_use_results": [
            {"tool_use_id": "t1", "content": [{"Text": "a.txt"}], "status": "Success"}]}}},
         "assistant": {"Response": {"message_id": "a2", "content": "One file."}}},
    ]}  # fmt: skip
    row = {"key": "/home/me/app", "conversation_id": "k-1", "value": json.dumps(history), "created_at": MS,
           "updated_at": MS}  # fmt: skip
    editor = {"sessionId": "k-2", "title": "Files", "workspaceDirectory": "/home/me/app", "history": [
        {"message": {"role": "user", "content": [text("list")], "id": "1"}, "contextItems": []},
        {"message": {"role": "assistant", "content": "One file.", "id": "2"}}]}  # fmt: skip
    below = ".config/Kiro/User/globalStorage/kiro.kiroagent/workspace-sessions/aGk_"
    return {
        f".kiro/sessions/cli/{UUID}.jsonl": session,
        ".local/share/kiro-cli/data.sqlite3": bytes_of(database({"conversations_v2": [row]})),
        f"{below}/k-2.json": json.dumps(editor).encode(),
    }


def grok() -> dict[str, bytes]:
    call = {"id": "c1", "name": "run_terminal_cmd", "arguments": '{"command":"ls"}'}
    search = {"tool_type": "web_search", "id": "ws_1", "status": "completed", "action": {"query": "files"}}
    history = lines(
        {"type": "system", "content": "You are Grok, a tool."},
        {"type": "user", "content": [text("<user_info>\nx\n</user_info>")], "synthetic_reason": "environment_context"},
        {"type": "user", "content": [text("list the files"), {"type": "image", "url": DATA_URL}], "prompt_index": 0},
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "a listing"}],
         "encrypted_content": "sig"},
        {"type": "assistant", "content": "I look.", "tool_calls": [call], "model_id": "m-1"},
        {"type": "tool_result", "tool_call_id": "c1", "content": "a.txt"},
        {"type": "backend_tool_call", "kind": search},
        {"type": "user", "content": [text("and then?")], "synthetic_reason": "interjection"},
        {"type": "assistant", "content": "One file.", "model_id": "m-1"},
    )  # fmt: skip
    old_call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    older = lines(
        {"role": "system", "content": "You are Grok"},
        {"role": "user", "content": "read it"},
        {"role": "assistant", "content": "I read.", "tool_calls": [old_call]},
        {"role": "tool", "content": "a", "tool_call_id": "c1"},
    )
    return {
        f"sessions/%2Fhome%2Fme%2Fapp/{UUID}/chat_history.jsonl": history,
        "sessions/%2Fhome%2Fme%2Fapp/s-2/chat_history.jsonl": older,
    }


def gptme() -> dict[str, bytes]:
    def said(role: str, content: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": content, "timestamp": "2026-11-16T10:00:00.000000+00:00", **more}

    usage = {"input_tokens": 12, "output_tokens": 4, "cache_read_tokens": 8, "cache_creation_tokens": 0}
    log = lines(
        said("system", "You are gptme.", pinned=True, hide=True),
        said("user", "list the files"),
        said("assistant", 'I look.\n\n@shell(call-1): {"command": "ls"}',
             metadata={"model": "maker/m-1", "usage": usage, "cost": 0.0012}),
        said("system", "a.txt", call_id="call-1"),
        said("assistant", "```shell\nls -l\n```"),
        said("system", "Ran command: `ls -l`"),
    )  # fmt: skip
    return {".local/share/gptme/logs/2026-11-16-list-files/conversation.jsonl": log}


def openclaw() -> dict[str, bytes]:
    def entry(id: str, parent: str | None, type: str = "message", **more: Any) -> dict[str, Any]:
        return {"type": type, "id": id, "parentId": parent, "timestamp": AT, **more}

    call = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}}
    back = {"role": "toolResult", "toolCallId": "c1", "toolName": "exec", "content": [text("a.txt")], "isError": False}
    session = lines(
        {"type": "session", "id": "oc-1", "version": 3, "timestamp": AT, "cwd": "/home/me/app"},
        entry("k1", None, "custom_message", customType="openclaw.runtime-context", content="context", display=False),
        entry("m1", "k1", message={"role": "user", "content": [text("list the files")]}),
        entry("m2", "m1", message={"role": "assistant", "model": "m-1", "content": [text("I look."), call]}),
        entry("m3", "m2", message=back),
        entry("m4", "m3", message={"role": "assistant", "content": [text("One file.")]}),
    )
    return {".openclaw/agents/main/sessions/oc-1.jsonl": session}


def traex() -> dict[str, bytes]:
    def line(type: str, /, **payload: Any) -> dict[str, Any]:
        return {"timestamp": AT, "type": type, "payload": payload}

    meta = {"id": UUID, "timestamp": AT, "cwd": "/home/me/app", "originator": "codex-tui", "cli_version": "0.200.1",
            "source": "cli", "model_provider": "trae"}  # fmt: skip
    rollout = lines(
        line("session_meta", **meta),
        line("response_item", type="message", role="user", content=[{"type": "input_text", "text": "list the files"}]),
        line("event_msg", type="user_message", message="list the files"),
        line("response_item", type="function_call", name="shell", arguments='{"command":"ls"}', call_id="call_1"),
        line("response_item", type="function_call_output", call_id="call_1", output="a.txt"),
        line("response_item", type="message", role="assistant", content=[{"type": "output_text", "text": "One."}]),
    )
    return {f"sessions/2026/11/16/rollout-2026-11-16T10-00-00-{UUID}.jsonl": rollout}


def iflow() -> dict[str, bytes]:
    def record(uuid: str, type: str, content: Any, **more: Any) -> dict[str, Any]:
        message = {"role": type, "content": content, **({"id": uuid, "model": "m-1"} if type == "assistant" else {})}
        return {"uuid": uuid, "parentUuid": None if uuid == "u1" else "u1", "sessionId": "session-1", "timestamp": AT,
                "type": type, "message": message, "cwd": "/home/me/app", "version": "1.0.0", **more}  # fmt: skip

    one, two = ({"type": "tool_use", "id": id, "name": "read_file", "input": {"absolute_path": id}} for id in "ab")

    def back(id: str) -> dict[str, Any]:
        response = {"functionResponse": {"id": id, "name": "read_file", "response": {"output": f"text of {id}"}}}
        content = {"callId": id, "responseParts": response, "resultDisplay": "Read 1 line"}
        return {"type": "tool_result", "tool_use_id": id, "content": content}

    done = {"toolName": "read_file", "status": "success"}
    session = lines(
        record("u1", "user", "read both"),
        record("a1", "assistant", [text("I read."), one]),
        record("a2", "assistant", [one, two]),
        record("r1", "user", [back("a")], toolUseResult=done),
        record("r2", "user", [back("b")], toolUseResult={**done, "status": "error"}),
        record("a3", "assistant", [text("Both read.")]),
    )
    return {"projects/-home-me-app/session-1.jsonl": session}


def buddy() -> dict[str, bytes]:
    about = {"sessionId": UUID, "cwd": "/home/me/app"}
    usage = {"prompt_tokens": 20, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}}
    items = lines(
        {"id": "u1", "timestamp": MS, "type": "message", "role": "user",
         "content": [{"type": "input_text", "text": "list the files"}], **about},
        {"id": "x1", "timestamp": MS, "type": "message", "role": "user", "providerData": {"skipRun": True},
         "content": [{"type": "input_text", "text": "a hook said"}], **about},
        {"id": "t1", "timestamp": MS, "type": "reasoning", "content": "a listing"},
        {"id": "f1", "timestamp": MS, "type": "function_call", "callId": "c1", "name": "Bash",
         "arguments": '{"command":"ls"}', "providerData": {"model": "m-1", "rawUsage": usage}},
        {"id": "r1", "timestamp": MS, "type": "function_call_result", "callId": "c1", "name": "Bash",
         "status": "completed", "output": {"type": "text", "text": "a.txt"}},
        {"id": "a1", "timestamp": MS, "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "One file."}], "providerData": {"model": "m-1"}},
        {"id": "i1", "timestamp": MS, "type": "ai-title", "aiTitle": "Files"},
    )  # fmt: skip
    return {f"projects/home-me-app/{UUID}.jsonl": items}


def amp() -> dict[str, bytes]:
    use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"cmd": "ls"}}
    back = {"type": "tool_result", "toolUseID": "c1", "run": {"status": "done", "result": {"output": "a.txt"}}}
    bad = {"type": "tool_result", "toolUseID": "c2", "run": {"status": "error", "error": {"message": "no"}}}
    usage = {"model": "m-1", "inputTokens": 9, "outputTokens": 4, "cacheReadInputTokens": 2, "timestamp": AT}
    thread = {
        "v": 3, "id": f"T-{UUID}", "created": MS, "title": "Files",
        "env": {"initial": {"trees": [{"uri": "file:///home/me/app", "displayName": "app"}]}},
        "messages": [
            {"role": "user", "messageId": 0, "content": [text("list the files")], "meta": {"sentAt": MS}},
            {"role": "assistant", "messageId": 1, "usage": usage, "content": [
                {"type": "thinking", "thinking": "a listing", "signature": "sig"}, text("I look."), use,
                {**use, "id": "c2"}]},
            {"role": "user", "messageId": 2, "content": [back, bad]},
            {"role": "assistant", "messageId": 3, "content": "One file."},
        ],
    }  # fmt: skip
    return {f".local/share/amp/threads/T-{UUID}.json": json.dumps(thread, indent=2).encode()}


def goose() -> dict[str, bytes]:
    request = {"type": "toolRequest", "id": "c1", "toolCall": {
        "status": "success", "value": {"name": "developer__shell", "arguments": {"command": "ls"}}}}  # fmt: skip
    response = {"type": "toolResponse", "id": "c1", "toolResult": {
        "status": "success", "value": {"content": [text("a.txt"), {**text("shown"), "annotations": {
            "audience": ["user"]}}], "isError": False}}}  # fmt: skip
    said: list[tuple[str, list[Any]]] = [
        ("user", [text("list the files")]),
        ("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}, text("I look."), request]),
        ("user", [response]),
        ("assistant", [text("One file."), {"type": "systemNotification", "msg": "x"}]),
    ]
    messages = [
        {"id": i, "message_id": f"m{i}", "session_id": "20261116_1", "role": role, "content_json": json.dumps(content),
         "created_timestamp": SECONDS}
        for i, (role, content) in enumerate(said, 1)
    ]  # fmt: skip
    tables = {
        "sessions": [{"id": "20261116_1", "name": "Files", "description": "", "session_type": "user",
                      "working_dir": "/home/me/app", "created_at": "2026-11-16 10:00:00", "recipe_json": None}],
        "messages": messages,
        "usage_ledger": [{"id": 1, "session_id": "20261116_1", "created_timestamp": SECONDS, "model": "m-1",
                          "input_tokens": 30, "output_tokens": 4, "cache_read_tokens": 20, "cost": 0.01}],
    }  # fmt: skip
    old = lines(
        {"working_dir": "/home/me/app", "description": "Files", "message_count": 2, "total_tokens": 9},
        {"role": "user", "created": SECONDS, "content": [text("list the files")]},
        {"role": "assistant", "created": SECONDS, "content": [text("One file.")]},
    )
    folder = ".local/share/goose/sessions"
    return {f"{folder}/sessions.db": bytes_of(database(tables)), f"{folder}/20250601_1.jsonl": old}


def zed() -> dict[str, bytes]:
    use = {"id": "c1", "name": "terminal", "raw_input": "{}", "input": {"command": "ls"}, "is_input_complete": True}
    result = {"tool_use_id": "c1", "tool_name": "terminal", "is_error": False, "content": {"Text": "a.txt"}}
    mention = {"uri": {"File": {"abs_path": "/home/me/app/a.txt"}}, "content": "the file a.txt"}
    thread = {
        "title": "Files", "version": "0.3.0", "model": {"provider": "maker", "model": "m-1"},
        "initial_project_snapshot": {"worktree_snapshots": [{"worktree_path": "/home/me/app"}]},
        "cumulative_token_usage": {"input_tokens": 9, "output_tokens": 4},
        "messages": [
            {"User": {"id": "u1", "content": [{"Text": "list the files"}, {"Mention": mention}]}},
            {"Agent": {"content": [{"Thinking": {"text": "hm", "signature": "s"}}, {"Text": "I look."},
                                   {"ToolUse": use}], "tool_results": {"c1": result}}},
            "Resume",
            {"Agent": {"content": [{"Text": "One file."}], "tool_results": {}}},
        ],
    }  # fmt: skip
    data = json.dumps(thread).encode()
    packed = zstandard.ZstdCompressor().compress(data)
    rows = [
        {"id": "z-1", "summary": "Files", "updated_at": AT, "data_type": "zstd", "data": packed, "parent_id": None},
        {"id": "z-2", "summary": "Files", "updated_at": AT, "data_type": "json", "data": data, "parent_id": "z-1"},
    ]
    return {".local/share/zed/threads/threads.db": bytes_of(database({"threads": rows}))}


def copilot_chat() -> dict[str, bytes]:
    call = {"id": "c1__vscode", "name": "list_dir", "arguments": '{"path":"."}'}
    metadata = {
        "promptTokens": 30, "outputTokens": 4, "resolvedModel": "m-1",
        "toolCallRounds": [{"response": "I look.", "toolCalls": [call], "thinking": {"text": "a listing"}},
                           {"response": "One file.", "toolCalls": []}],
        "toolCallResults": {"c1__vscode": {"content": [{"value": "a.txt"}]}},
    }  # fmt: skip
    shown = [
        {"value": "I look "}, {"kind": "inlineReference", "inlineReference": {"path": "/home/me/app"}},
        {"kind": "toolInvocationSerialized", "toolId": "copilot_listDirectory", "toolCallId": "c2", "isComplete": True,
         "pastTenseMessage": {"value": "Listed"}},
        {"kind": "thinking", "value": "hm"}, {"value": "One file."},
    ]  # fmt: skip
    requests = [
        {"requestId": "r1", "timestamp": MS, "message": {"text": "list the files", "parts": []}, "response": shown,
         "modelId": "copilot/m-0", "result": {"metadata": metadata}},
        {"requestId": "r2", "timestamp": MS, "message": {"text": "again"}, "response": shown, "modelId": "copilot/m-0"},
    ]  # fmt: skip
    head = {"version": 3, "sessionId": "v-1", "creationDate": MS, "customTitle": "Files", "requests": []}
    log = lines(
        {"kind": 0, "v": {**head, "customTitle": "x", "sessionId": "v-2"}},
        {"kind": 1, "k": ["customTitle"], "v": "Files"},
        {"kind": 2, "k": ["requests"], "v": [{**requests[0], "response": []}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": shown[:2]},
        {"kind": 2, "k": ["requests", 0, "response"], "i": 1, "v": shown[1:]},
        {"kind": 1, "k": ["requests", 0, "draft"], "v": 1},
        {"kind": 3, "k": ["requests", 0, "draft"]},
    )
    folder = ".config/Code/User/workspaceStorage/aa/chatSessions"
    return {f"{folder}/v-1.json": json.dumps({**head, "requests": requests}).encode(), f"{folder}/v-2.jsonl": log}


def continue_dev() -> dict[str, bytes]:
    def call(id: str, tool: str, arguments: str) -> dict[str, Any]:
        return {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}

    read, run = call("c1", "read_file", '{"filepath":"a.txt"}'), call("c2", "run_terminal_command", "{broken")
    session = {
        "sessionId": UUID, "title": "Files", "workspaceDirectory": "file:///home/me/app", "chatModelTitle": "m-1",
        "history": [
            {"message": {"role": "user", "content": [text("read a.txt"), {
                "type": "imageUrl", "imageUrl": {"url": DATA_URL}}]}, "contextItems": [{"name": "a.txt"}]},
            {"message": {"role": "thinking", "content": "a file"}},
            {"message": {"role": "assistant", "content": "I read.", "toolCalls": [read, run],
                         "usage": {"promptTokens": 9, "completionTokens": 4}},
             "toolCallStates": [{"toolCallId": "c1", "toolCall": read, "status": "done", "output": [
                 {"name": "a.txt", "content": "one"}]},
                 {"toolCallId": "c2", "toolCall": run, "status": "canceled"}]},
            {"message": {"role": "tool", "content": "one", "toolCallId": "c1"}},
            {"message": {"role": "assistant", "content": "It says one."}, "id": "h5", "timestamp": AT},
        ],
    }  # fmt: skip
    return {f"sessions/{UUID}.json": json.dumps(session, indent=2).encode()}


def chatgpt() -> dict[str, bytes]:
    def node(id: str, parent: str | None, children: list[str], role: str = "", **message: Any) -> dict[str, Any]:
        about = {"id": id, "author": {"role": role}, "create_time": SECONDS + 0.5, "recipient": "all", **message}
        return {"id": id, "parent": parent, "children": children, "message": about if role else None}

    def content(*parts: Any, kind: str = "text") -> dict[str, Any]:
        return {"content_type": kind, "parts": list(parts)}

    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}
    nodes = [
        node("root", None, ["s"]),
        node("s", "root", ["u1", "u0"], "system", content=content(""),
             metadata={"is_visually_hidden_from_conversation": True}),
        node("u0", "s", [], "user", content=content("an edited prompt")),
        node("u1", "s", ["t"], "user", content=content(picture, "count the lines", kind="multimodal_text")),
        node("t", "u1", ["c"], "assistant", content={"content_type": "thoughts", "thoughts": [{"content": "code"}]}),
        node("c", "t", ["o"], "assistant", content={"content_type": "code", "text": "len(lines)"}, recipient="python"),
        node("o", "c", ["a"], "tool", content={"content_type": "execution_output", "text": "3"}),
        node("a", "o", [], "assistant", content=content("Three."), metadata={"model_slug": "m-1"}),
    ]  # fmt: skip
    one = {"title": "Lines", "create_time": SECONDS + 0.5, "conversation_id": "g-1", "current_node": "a",
           "mapping": {node["id"]: node for node in nodes}}  # fmt: skip
    two = {**one, "title": "Again", "conversation_id": "g-2", "current_node": "u0"}
    return {"export/conversations.json": json.dumps([one, two]).encode()}


def claude_ai() -> dict[str, bytes]:
    def said(uuid: str, sender: str, *content: Any, **more: Any) -> dict[str, Any]:
        whole = {"uuid": uuid, "sender": sender, "created_at": AT, "text": "", "content": list(content)}
        return {**whole, "attachments": [], "files": [], **more}

    file = {"file_name": "a.txt", "extracted_content": "one"}
    messages = [
        said("m1", "human", text("search it"), attachments=[file], files=[{"file_name": "b.png"}]),
        said("m2", "assistant", {"type": "thinking", "thinking": "hm"}, text("I search."),
             {"type": "tool_use", "name": "web_search", "input": {"query": "x"}},
             {"type": "tool_result", "name": "web_search", "content": [text("found")], "is_error": False},
             {"type": "token_budget", "left": 1}),
        said("m3", "human", text=" thanks "),
    ]  # fmt: skip
    conversations = [
        {"uuid": "c-1", "name": "A search", "created_at": AT, "updated_at": AT, "chat_messages": messages},
        {"uuid": "c-2", "name": "", "created_at": AT, "updated_at": AT, "chat_messages": []},
        {"uuid": "c-3", "name": "More", "created_at": AT, "updated_at": AT, "chat_messages": messages[:1]},
    ]
    return {"export/conversations.json": json.dumps(conversations).encode()}


SAMPLES = {
    "antigravity": antigravity,
    "kiro": kiro,
    "grok": grok,
    "gptme": gptme,
    "openclaw": openclaw,
    "traex": traex,
    "iflow": iflow,
    "codebuddy": buddy,
    "workbuddy": lambda: {f".workbuddy/{path}": data for path, data in buddy().items()},
    "amp": amp,
    "goose": goose,
    "zed": zed,
    "copilot-chat": copilot_chat,
    "continue": continue_dev,
    "chatgpt": chatgpt,
    "claude-ai": claude_ai,
}
