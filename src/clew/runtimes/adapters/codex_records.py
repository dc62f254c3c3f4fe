"""The records of a Codex session file, as far as clew reads them."""

from typing import Any

import msgspec


class Tokens(msgspec.Struct):
    input_tokens: int | None = 0
    cached_input_tokens: int | None = 0
    cache_write_input_tokens: int | None = 0
    output_tokens: int | None = 0
    reasoning_output_tokens: int | None = 0
    total_tokens: int | None = 0


class Counted(msgspec.Struct):
    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None


class Payload(msgspec.Struct):
    """The fields of all kinds of payloads; a field whose type differs between kinds is Any."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: Any = None
    name: str | None = None
    namespace: str | None = None
    call_id: str | None = None
    arguments: Any = None
    input: Any = None
    output: Any = None
    action: Any = None
    tools: Any = None
    status: Any = None
    result: Any = None
    summary: Any = None
    encrypted_content: str | None = None
    revised_prompt: Any = None
    internal_chat_message_metadata_passthrough: Any = None
    item: Any = None
    success: Any = None
    exit_code: Any = None
    message: Any = None
    replacement_history: Any = None
    info: Counted | None = None
    usage: Tokens | None = None
    response_id: str | None = None
    thread_token_usage: Tokens | None = None
    turn_id: str | None = None
    reason: Any = None
    num_turns: Any = None
    thread_name: Any = None
    model: Any = None
    cwd: str | None = None
    cli_version: str | None = None
    git: Any = None
    source: Any = None
    agent_nickname: str | None = None
    parent_thread_id: str | None = None
    forked_from_id: str | None = None
    history_base: Any = None


class Line(msgspec.Struct):
    type: str | None = None
    timestamp: Any = None
    payload: Payload | None = None
