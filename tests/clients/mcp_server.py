"""An MCP server over stdio with the answers that are hard to carry: several blocks, a failure, an image, a megabyte."""

import json
import sys
from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
TOOLS = [{"name": "look_up", "description": "Looks a word up.", "inputSchema": WORD}]


def looked_up(word: str) -> dict[str, Any]:
    """What the tool answers for a word."""
    match word:
        case "missing":
            return {"content": [{"type": "text", "text": "No such wörd."}], "isError": True}
        case "picture":
            pixel = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            return {"content": [{"type": "text", "text": "A picture:"}, pixel]}
        case "blocks":
            return {"content": [{"type": "text", "text": text} for text in ("Block öne.", '{"block": 2}')]}
    return {"content": [{"type": "text", "text": f"{word} means “{word[::-1]}”."}]}


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None if there is no such method."""
    match method:
        case "initialize":
            server = {"name": "desk", "version": "1"}
            version = parameters.get("protocolVersion", "2025-06-18")
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return looked_up(str(parameters["arguments"]["word"]))
    return None


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
