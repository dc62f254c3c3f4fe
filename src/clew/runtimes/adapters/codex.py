"""Codex CLI: JSON lines in `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, each `{timestamp, type, payload}`.

`response_item` records hold what the llm sees; `event_msg` records repeat it for the screen and are stored verbatim. A
fork, and the continuation after a revert, is a file with only its own part; `history_base` names the rest. Older
versions copy the history of the session that they fork.
"""

import base64
import re
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Raw

from clew.model.events import (
    Body,
    CallMade,
    CallReturned,
    Compacted,
    Draft,
    ImagePart,
    MessageAdded,
    Part,
    Rewound,
    RuntimeAttached,
    SessionTitled,
    TextPart,
    ThinkingPart,
    Touch,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageCounted,
)
from clew.model.prompt_title import prompt_title
from clew.runtimes.adapters.codex_records import Counted, Line, Payload, Tokens
from clew.runtimes.adapters.codex_write import FILE_ID, resume, takes_thought, thread_of, write
from clew.runtimes.contract import (
    Format,
    Identity,
    Proven,
    Reading,
    Runtime,
    Tool,
    Writer,
    micros,
    opaque,
    project_of,
    raw,
)
from clew.runtimes.rounds import text_of

NAME = "codex"
# The most turns that a rollback can undo, and the most calls that are remembered until they return: state stays small.
TURNS = OPEN_CALLS = 50
# Providers of local llms number their items from zero in every answer: only a long id is unique.
_LONG_ID = re.compile(r"[\w-]{16,}")
_TAGS = (
    "environment_context|user_instructions|turn_aborted|subagent_notification|skill|permissions instructions"
    "|collaboration_mode|multi_agent_mode|context_window_guidance|model_switch|personality_spec|realtime_conversation"
)
_INJECTED = re.compile(rf"\s*(?:<({_TAGS})>.*</\1>|# AGENTS\.md instructions.*</INSTRUCTIONS>)\s*", re.S)
# What the program says about the conversation itself: a skill's body, what a subagent found, an interruption. The rest
# describes the place where it runs, and the next program describes its own.
_NEWS_TAGS = ("skill", "subagent_notification", "turn_aborted")
_NEWS_KINDS = ("skills.selected_skill_instructions", "multi_agent.subagent_notification", "generic.turn_aborted")
_IMAGE_TAG = re.compile(r"<image[^<>]*>|</image>")
_EXIT = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d+)$", re.M)
_REFUSED = ("aborted", "unsupported call: ", "failed to parse function arguments", "apply_patch verification failed",
            "patch rejected", "exec_command failed")  # fmt: skip


class State(msgspec.Struct, omit_defaults=True):
    where: tuple[str, str, str] = ("", "", "")
    model: str = ""
    titled: bool = False
    forked: bool = False
    turn: str = ""
    # The tokens of the session at the last count; -1 if each answer is counted by itself.
    total: int = 0
    failed: list[str] = []
    # The open calls whose input names the files that they change, and the files that other open calls changed.
    patches: list[str] = []
    changed: dict[str, list[str]] = {}
    last: str = ""
    # For each prompt, the source of the draft before it.
    turns: list[str] = []


_decode = msgspec.json.Decoder(Line).decode
_decode_flat = msgspec.json.Decoder(Payload).decode


def read(record: bytes, key: str, reading: Reading[State]) -> list[Draft]:
    line = _decode(record)
    type, payload = line.type or "", line.payload
    if payload is None:
        # Before 0.32 there was no envelope.
        payload = _decode_flat(record)
        type = "response_item" if payload.type else "session_meta" if payload.id else "record"
    source = _source(type, payload) or key
    at = micros(line.timestamp) if isinstance(line.timestamp, str) else None
    bodies = _bodies(type, payload, reading) or [None]
    drafts = []
    for i, body in enumerate(bodies):
        name = f"{source}/{i}" if i else source
        if body is None:
            drafts.append(opaque(f"{NAME}.{payload.type or type}", record, name, at))
        else:
            drafts.append(Draft(body=body, source=name, said_at=at))
    reading.state.last = drafts[-1].source or ""
    return drafts


def _source(type: str, payload: Payload) -> str:
    """The identity of a record; empty if it has no reliable one."""
    if type == "token_usage_record":
        response = payload.response_id or ""
        return response if _LONG_ID.fullmatch(response) else ""
    if type != "response_item":
        return ""
    if payload.id and _LONG_ID.fullmatch(payload.id):
        return payload.id
    if payload.call_id and _LONG_ID.fullmatch(payload.call_id):
        return f"{payload.call_id}/{'call' if payload.output is None else 'return'}"
    return ""


def _bodies(type: str, payload: Payload, reading: Reading[State]) -> list[Body | None]:
    """The bodies of a record; None is the record verbatim, and so is an empty list."""
    state = reading.state
    if type == "session_meta":
        return _attached(payload, reading)
    if type == "turn_context":
        state.model = payload.model if isinstance(payload.model, str) else state.model
        state.turn = payload.turn_id or state.turn
        return _attachment_if_changed((payload.cwd or state.where[0], *state.where[1:]), reading)
    if type == "response_item":
        return _item(payload, reading)
    if type == "event_msg":
        return _event(payload, reading)
    if type == "compacted":
        summary = _summary(payload)
        return [Compacted(summary=summary)] if summary else []
    if type == "token_usage_record" and payload.usage and (usage := _usage(payload.usage)):
        state.total = -1
        return [UsageCounted(usage=usage, model=state.model, message=payload.response_id or "")]
    return []


def _attached(meta: Payload, reading: Reading[State]) -> list[Body | None]:
    """The program, again only if something changed; the head of a fork can repeat its parent's."""
    thread = thread_of(reading.native)
    if meta.id and meta.id != thread:
        return []
    branch = meta.git.get("branch") if isinstance(meta.git, dict) else ""
    forked = bool(meta.forked_from_id or meta.history_base)
    reading.state.forked = reading.state.forked or forked
    attached = _attachment_if_changed(
        (meta.cwd or "", meta.cli_version or "", branch if isinstance(branch, str) else ""), reading
    )
    return [*attached, None] if attached and forked else attached


def _attachment_if_changed(where: tuple[str, str, str], reading: Reading[State]) -> list[Body | None]:
    if where == reading.state.where:
        return []
    reading.state.where = where
    cwd, version, branch = where
    return [
        RuntimeAttached(runtime=NAME, native=thread_of(reading.native), cwd=cwd, runtime_version=version, branch=branch)
    ]


def _item(item: Payload, reading: Reading[State]) -> list[Body | None]:
    state, model = reading.state, reading.state.model
    call = item.call_id or item.id or ""
    match item.type or "message":
        case "message" if item.role == "assistant":
            return _message("assistant", item, reading)
        case "message" if item.role == "user" and (teller := _teller(item)):
            told = _message(teller, item, reading)
            return _with_title(told, state) if teller == "user" else told
        case "agent_message":
            # A message from another agent; it can be encrypted as a whole.
            return _message("user", item, reading)
        case "reasoning":
            text = "\n\n".join(_texts(item.summary) + _texts(item.content))
            thought = ThinkingPart(text=text, signature=item.encrypted_content or "")
            has_content = bool(thought.text or thought.signature)
            return [MessageAdded(role="assistant", parts=(thought,), model=model)] if has_content else []
        case "function_call" if item.name and call:
            tool = f"{item.namespace}__{item.name}" if item.namespace else item.name
            _note_patch(call, tool, state)
            return [CallMade(call=call, tool=tool, input=_arguments(item.arguments), model=model)]
        case "custom_tool_call" if item.name and call:
            _note_patch(call, item.name, state)
            return [CallMade(call=call, tool=item.name, input=raw({"input": item.input}), model=model)]
        case "local_shell_call" if call:
            return [CallMade(call=call, tool="local_shell", input=raw(item.action), model=model)]
        case "tool_search_call" if call:
            return [CallMade(call=call, tool="tool_search", input=_arguments(item.arguments), model=model)]
        case "tool_search_output" if item.call_id:
            return [CallReturned(call=item.call_id, output=raw(item.tools))]
        case "function_call_output" | "custom_tool_call_output" if item.call_id:
            return [_returned(item.call_id, item.output, reading)]
        case "web_search_call" if call:
            # The provider ran the search: the results are part of its answer.
            returned = CallReturned(call=call, output=raw({"status": item.status}), failed=item.status == "failed")
            return [CallMade(call=call, tool="web_search", input=raw(item.action), model=model), returned]
        case "image_generation_call" if call and isinstance(item.result, str):
            image = ImagePart(blob=reading.blob(base64.b64decode(item.result, validate=True)), media_type="image/png")
            made = CallMade(call=call, tool="image_generation", input=raw({"prompt": item.revised_prompt}), model=model)
            return [made, CallReturned(call=call, parts=(image,))]
    return []


def _message(role: str, item: Payload, reading: Reading[State]) -> list[Body | None]:
    parts, left = _parts(item.content, reading)
    model = reading.state.model if role == "assistant" else ""
    text = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else ""
    bodies: list[Body | None] = []
    if parts:
        bodies.append(MessageAdded(role=role, text=text, parts=() if text else tuple(parts), model=model))
    # A block that is not a valid part is stored with the record.
    return [*bodies, None] if left and bodies else bodies


def _parts(content: Any, reading: Reading[State]) -> tuple[list[Part], bool]:
    """The parts of a content, and whether some blocks are not valid parts."""
    if isinstance(content, str):
        return [TextPart(text=content)], False
    parts: list[Part] = []
    left = False
    shows = any(block.get("type") == "input_image" for block in content or [])
    for block in content or []:
        if isinstance(text := block.get("text"), str):
            if not (shows and _IMAGE_TAG.fullmatch(text)):
                parts.append(TextPart(text=text))
        elif isinstance(url := block.get("image_url"), str) and url.startswith("data:"):
            parts.append(_image(url, reading))
        else:
            left = True
    return parts, left


def _image(url: str, reading: Reading[State]) -> ImagePart:
    about, _, data = url.removeprefix("data:").partition(",")
    return ImagePart(blob=reading.blob(base64.b64decode(data, validate=True)), media_type=about.partition(";")[0])


def _texts(content: Any) -> list[str]:
    return [block["text"] for block in content or [] if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _teller(item: Payload) -> str:
    """Who says a message in the user's name: the user, the program (system), or nobody of the conversation (empty).

    Newer versions mark what the program wrote, older ones use known tags.
    """
    about = item.internal_chat_message_metadata_passthrough
    kinds = about.get("content_item_kinds") if isinstance(about, dict) else None
    if isinstance(kinds, list) and kinds and "unknown" not in kinds:
        if any(str(kind).startswith("user") for kind in kinds):
            return "user"
        return "system" if any(kind in _NEWS_KINDS for kind in kinds) else ""
    texts = [item.content] if isinstance(item.content, str) else _texts(item.content)
    injected = [_INJECTED.fullmatch(text) for text in texts]
    if not all(injected) or not texts:
        return "user"
    return "system" if any(match and match[1] in _NEWS_TAGS for match in injected) else ""


def _with_title(bodies: list[Body | None], state: State) -> list[Body | None]:
    """Add the title that the first prompt gives the session; each prompt begins a turn."""
    if not bodies or not isinstance(first := bodies[0], MessageAdded):
        return bodies
    state.turns = [*state.turns, state.last][-TURNS:]
    if state.titled:
        return bodies
    title, state.titled = prompt_title(text_of(first.content))
    return [*bodies, SessionTitled(title=title)] if title else bodies


def _arguments(arguments: Any) -> Raw:
    """The arguments as the llm wrote them; text that is not JSON becomes a JSON string."""
    if not isinstance(arguments, str):
        return raw({} if arguments is None else arguments)
    if not arguments.strip():
        return Raw(b"{}")
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return raw(arguments)
    return Raw(arguments.encode())


def _returned(call: str, output: Any, reading: Reading[State]) -> CallReturned:
    state, parts = reading.state, []
    if isinstance(output, dict) and "content" in output:
        # Some versions before 0.60 wrap it: {"content": ..., "success": ...}.
        output, success = output["content"], output.get("success")
        state.failed += [call] if success is False else []
    text = output if isinstance(output, str) else "\n".join(_texts(output if isinstance(output, list) else [output]))
    if isinstance(output, list) and any("image_url" in block for block in output):
        parts = [part for part in _parts(output, reading)[0] if isinstance(part, ImagePart)]
        output = [
            block for block in output if "image_url" not in block or not str(block["image_url"]).startswith("data:")
        ]
    failed = call in state.failed or _is_failure(text)
    state.failed = [other for other in state.failed if other != call]
    state.patches = [other for other in state.patches if other != call]
    touched = tuple(Touch(what=path, how="written") for path in state.changed.pop(call, ()))
    returned = raw(output or None if parts else output)
    return CallReturned(call=call, output=returned, parts=tuple(parts), touched=touched, failed=failed)


def _is_failure(text: str) -> bool:
    if text.startswith(_REFUSED) or text.endswith("\naborted by user"):
        return True
    if text.startswith('{"output":') and text.endswith("}"):
        try:
            about = msgspec.json.decode(text).get("metadata")
        except (msgspec.DecodeError, RecursionError):
            return False
        return isinstance(about, dict) and about.get("exit_code") not in (0, None)
    # The program puts this header before the command's output.
    code = _EXIT.search(text[:200].partition("\nOutput:\n")[0])
    return code is not None and code[1] != "0"


def _note_patch(call: str, tool: str, state: State) -> None:
    """Remember that the input of a call names the files that it changes."""
    if tool == "apply_patch":
        state.patches = [*state.patches, call][-OPEN_CALLS:]


def _note_changes(item: Any, state: State) -> None:
    """Remember the files that a call changed: a shell can apply a patch, too."""
    if not isinstance(item, dict) or item.get("type") != "FileChange" or item.get("status") != "completed":
        return
    call, changes = item.get("id"), item.get("changes")
    if isinstance(call, str) and call not in state.patches and isinstance(changes, dict):
        state.changed[call] = list(changes)
        while len(state.changed) > OPEN_CALLS:
            del state.changed[next(iter(state.changed))]


def _note_failure(event: Payload, state: State) -> None:
    """Remember that a call failed: its later return does not always show it."""
    about = event.item if isinstance(event.item, dict) else {}
    call, result = about.get("id") or event.call_id, event.result if isinstance(event.result, dict) else {}
    done = result.get("Ok")
    failed = (
        about.get("status") == "failed"
        or event.success is False
        or event.exit_code not in (0, None)
        or "Err" in result
        or (isinstance(done, dict) and done.get("isError") is True)
    )
    if failed and isinstance(call, str):
        state.failed = [*state.failed, call][-OPEN_CALLS:]


def _event(event: Payload, reading: Reading[State]) -> list[Body | None]:
    state = reading.state
    match event.type:
        case "task_started" | "turn_started":
            state.turn = event.turn_id or ""
            return [TurnStarted(turn=state.turn, model=state.model)]
        case "task_complete" | "turn_complete":
            return [TurnEnded(turn=event.turn_id or state.turn, stop_reason="completed", model=state.model)]
        case "turn_aborted":
            reason = event.reason if isinstance(event.reason, str) else "interrupted"
            return [TurnEnded(turn=event.turn_id or state.turn, stop_reason=reason, model=state.model)]
        case "thread_name_updated" if isinstance(event.thread_name, str) and event.thread_name.strip():
            state.titled = True
            return [SessionTitled(title=event.thread_name.strip())]
        case "thread_rolled_back" if isinstance(event.num_turns, int) and event.num_turns > 0 and state.turns:
            at = max(len(state.turns) - event.num_turns, 0)
            to, state.turns = state.turns[at], state.turns[:at]
            return [Rewound(to=to)]
        case "token_count":
            return _count(event.info, reading)
        case "item_completed" | "exec_command_end" | "mcp_tool_call_end" | "patch_apply_end":
            _note_failure(event, state)
            _note_changes(event.item, state)
    return []


def _count(info: Counted | None, reading: Reading[State]) -> list[Body | None]:
    """The usage of the last answer, counted once: records about the rate limits repeat it."""
    state = reading.state
    if info is None or info.total_token_usage is None or info.last_token_usage is None or state.total < 0:
        return []
    total, usage = info.total_token_usage.total_tokens or 0, _usage(info.last_token_usage)
    if total == state.total or usage is None:
        return []
    state.total = total
    # A fork of an older version begins with a copy of its parent's turns. Ids contain the time: copied ones are older.
    inherited = state.forked and len(state.turn) == 36 and state.turn < thread_of(reading.native)
    return [] if inherited else [UsageCounted(usage=usage, model=state.model)]


def _usage(tokens: Tokens) -> Usage | None:
    read, write = tokens.cached_input_tokens or 0, tokens.cache_write_input_tokens or 0
    usage = Usage(
        input=max((tokens.input_tokens or 0) - read - write, 0), output=tokens.output_tokens or 0,
        cache_read=read, cache_write=write, reasoning=tokens.reasoning_output_tokens or 0,
    )  # fmt: skip
    return usage if usage != Usage() else None


def _summary(compacted: Payload) -> str:
    """What the llm sees from here on: the kept messages, then the summary. Empty if it is encrypted."""
    summary = compacted.message if isinstance(compacted.message, str) else ""
    history = compacted.replacement_history if isinstance(compacted.replacement_history, list) else []
    if not summary and any(message.get("type") in ("compaction", "context_compaction") for message in history):
        return ""
    kept = []
    for message in msgspec.convert(history, list[Payload]):
        text = "\n".join(_texts(message.content))
        is_told = message.role == "assistant" or (message.role == "user" and _teller(message))
        if is_told and text and text != summary:
            kept.append(f"{message.role}: {text}")
    return "\n\n".join([*kept, *([summary] if summary else [])])


_ZSTD = b"\x28\xb5\x2f\xfd"


def recognises(path: PurePath, head: bytes) -> bool:
    if path.name.startswith("rollout-") and path.name.endswith(".jsonl.zst") and head.startswith(_ZSTD):
        return True
    first = head.lstrip().partition(b"\n")[0]
    if re.search(rb'"type":\s*"session_meta"', first) and b'"payload"' in first:
        return True
    return path.name.startswith("rollout-") and path.suffix == ".jsonl" and first.startswith(b"{")


def identify(path: PurePath, first: bytes) -> Identity:
    """The session that the first record names. A continuation after a revert has the same id and a longer name."""
    name = FILE_ID.search(path.stem)
    try:
        line = _decode(first)
        meta = line.payload or _decode_flat(first)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        meta = Payload()
    thread = meta.id or (name[1] if name else path.stem)
    base = meta.history_base if isinstance(meta.history_base, dict) else {}
    spawn = meta.source.get("subagent") if isinstance(meta.source, dict) else None
    spawn = spawn.get("thread_spawn") if isinstance(spawn, dict) else None
    parent = meta.parent_thread_id or (spawn.get("parent_thread_id") if isinstance(spawn, dict) else "")
    url = meta.git.get("repository_url") if isinstance(meta.git, dict) else ""
    native = f"{thread}{name[2]}" if name and name[2] and name[1] == thread else thread
    return Identity(
        native=native,
        project=project_of(meta.cwd) if meta.cwd else "",
        folder=meta.cwd or "",
        repository=url if isinstance(url, str) else "",
        agent=meta.agent_nickname or "",
        parent=parent if isinstance(parent, str) and parent != native else "",
        fork_of=str(base.get("thread_id") or ""),
        fork_bytes=base["end_byte_offset"] if isinstance(base.get("end_byte_offset"), int) else 0,
    )


RUNTIME = Runtime(
    name=NAME,
    title="Codex CLI",
    home=".codex",
    home_variable="CODEX_HOME",
    binary="codex",
    formats=(
        Format(
            name="rollout",
            patterns=tuple(
                f"{folder}/**/rollout-*.jsonl{packed}"
                for folder in ("sessions", "archived_sessions")
                for packed in ("", ".zst")
            ),
            recognises=recognises,
            identify=identify,
            read=read,
            state=State,
            packed=True,
        ),
    ),
    tools={"shell": Tool("exec_command", {"command": "cmd"}), "patch": Tool("apply_patch", {"patch": "input"})},
    writer=Writer(
        write=write, resume=resume, images=True, failures=False, takes_thought=takes_thought, longest_result=10_000
    ),
    proven=Proven("0.169.0", "2026-11-19"),
)
