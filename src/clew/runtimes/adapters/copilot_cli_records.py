"""The events of GitHub Copilot CLI, as far as they are read: each class is the data of one kind of event."""

from typing import Annotated

import msgspec
from msgspec import Raw

# No count is higher; a larger number does not fit the database's integers.
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)] | None


class Event(msgspec.Struct):
    type: str
    data: Raw = Raw(b"{}")
    id: str | None = None
    timestamp: str | None = None
    agentId: str | None = None


class Context(msgspec.Struct):
    cwd: str | None = None
    branch: str | None = None


class Started(msgspec.Struct):
    sessionId: str | None = None
    copilotVersion: str | None = None
    context: Context | None = None


class Binary(msgspec.Struct):
    """An image or a file: its bytes, or the id of an earlier `session.binary_asset`."""

    type: str | None = None
    data: str | None = None
    assetId: str | None = None
    mimeType: str | None = None
    displayName: str | None = None


class Prompted(msgspec.Struct):
    content: str | None = None
    attachments: Raw = Raw(b"null")
    source: str | None = None
    transformedContent: str | None = None
    isAutopilotContinuation: bool | None = None


class Request(msgspec.Struct):
    toolCallId: str
    name: str
    arguments: Raw = Raw(b"{}")


class Answered(msgspec.Struct):
    content: str | None = None
    messageId: str | None = None
    apiCallId: str | None = None
    model: str | None = None
    reasoningText: str | None = None
    reasoningOpaque: str | None = None
    encryptedContent: str | None = None
    toolRequests: list[Request] | None = None
    parentToolCallId: str | None = None


class Ran(msgspec.Struct):
    toolCallId: str
    toolName: str
    arguments: Raw = Raw(b"{}")
    model: str | None = None
    parentToolCallId: str | None = None


class Result(msgspec.Struct):
    content: Raw = Raw(b'""')
    binaryResultsForLlm: list[Binary] | None = None


class Fault(msgspec.Struct):
    message: str | None = None


class Completed(msgspec.Struct):
    toolCallId: str
    success: bool | None = None
    result: Result | None = None
    error: Fault | None = None
    parentToolCallId: str | None = None


class Invoked(msgspec.Struct):
    content: str | None = None


class Delivered(msgspec.Struct):
    """The body of a skill as the llm got it, in the user's name; `contentId` is the digest of what was invoked."""

    contentId: str | None = None
    prefix: str | None = None
    suffix: str | None = None


class Summarised(msgspec.Struct):
    success: bool | None = None
    summaryContent: str | None = None


class Cleared(msgspec.Struct):
    initialMessage: str | None = None


class Tokens(msgspec.Struct):
    inputTokens: Count = 0
    outputTokens: Count = 0
    cacheReadTokens: Count = 0
    cacheWriteTokens: Count = 0
    reasoningTokens: Count = 0
    model: str | None = None
    apiCallId: str | None = None


class Metered(msgspec.Struct):
    usage: Tokens | None = None


class Shutdown(msgspec.Struct):
    modelMetrics: dict[str, Metered] | None = None
