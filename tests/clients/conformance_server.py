"""clew's MCP server with what the protocol's conformance suite asks for by name: `conformance_server.py PORT`.

The fixtures are added to the server that clew builds, over the transport that clew uses. They live here only.
"""

import sys
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.routing import Mount

from clew import app
from clew.mcp.server import build, over_http

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NOTHING = {"type": "object", "properties": {}}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}

Asked = Callable[[Any, Any], Awaitable[Any]]


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, said: str, kind: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=kind, text=said)
    )


TOOLS: dict[str, list[Any]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [types.AudioContent(type="audio", data=SOUND, mime_type="audio/wav")],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "This is an embedded resource content."),
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"), image(),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "json_schema_2020_12_tool": [text("{}")],
}  # fmt: skip
PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


def with_fixtures(server: Server[Any]) -> Server[Any]:
    """The server, with the suite's tools, resources and prompts beside its own."""

    def beside(method: str, added: Callable[[Asked], Asked]) -> None:
        known = server.get_request_handler(method)
        assert known is not None
        server.add_request_handler(method, known.params_type, added(known.handler))

    beside("tools/list", _listing("tools", [_tool(name) for name in TOOLS]))
    beside("tools/call", _calling)
    beside("resources/list", _listing("resources", [_resource("static-text"), _resource("static-binary")]))
    template = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template")
    beside("resources/templates/list", _listing("resource_templates", [template]))
    beside("resources/read", _reading)
    beside("prompts/list", _listing("prompts", [_prompt(name) for name in PROMPTS]))
    beside("prompts/get", _prompting)
    return server


def _listing(part: str, more: list[Any]) -> Callable[[Asked], Asked]:
    def added(known: Asked) -> Asked:
        async def listed(ctx: Any, params: Any) -> Any:
            found = await known(ctx, params)
            return found.model_copy(update={part: [*getattr(found, part), *more]})

        return listed

    return added


def _tool(name: str) -> types.Tool:
    schema = SCHEMA if name.startswith("json_schema") else NOTHING
    return types.Tool(name=name, description=f"Fixture {name}.", input_schema=schema)


def _resource(name: str) -> types.Resource:
    return types.Resource(uri=f"test://{name}", name=name, description="A fixture.")


def _prompt(name: str) -> types.Prompt:
    arguments = [types.PromptArgument(name=one, description="A word.", required=True) for one in PROMPTS[name]]
    return types.Prompt(name=name, description="A fixture.", arguments=arguments)


def _calling(known: Asked) -> Asked:
    async def call(ctx: Any, params: Any) -> Any:
        if params.name not in TOOLS:
            return await known(ctx, params)
        return types.CallToolResult(content=TOOLS[params.name], is_error=params.name == "test_error_handling")

    return call


def _reading(known: Asked) -> Asked:
    async def read(ctx: Any, params: Any) -> Any:
        uri = str(params.uri)
        if uri == "test://static-text":
            said = "This is the content of the static text resource."
            found: Any = types.TextResourceContents(uri=uri, mime_type="text/plain", text=said)
        elif uri == "test://static-binary":
            found = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)
        elif uri.startswith("test://template/"):
            said = f'{{"id": "{uri.split("/")[3]}", "templateTest": true}}'
            found = types.TextResourceContents(uri=uri, mime_type="application/json", text=said)
        else:
            return await known(ctx, params)
        return types.ReadResourceResult(contents=[found])

    return read


def _prompting(known: Asked) -> Asked:
    async def prompt(ctx: Any, params: Any) -> Any:
        if params.name not in PROMPTS:
            return await known(ctx, params)
        given = params.arguments or {}
        if missing := [name for name in PROMPTS[params.name] if name not in given]:
            raise MCPError(types.INVALID_PARAMS, f"missing {missing}")
        said: list[Any] = {
            "test_simple_prompt": [text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments": [
                text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
            ],
            "test_prompt_with_embedded_resource": [
                embedded(given.get("resourceUri", ""), "Embedded resource content for testing."), text("Process it.")
            ],
            "test_prompt_with_image": [image(), text("Please analyze the image above.")],
        }[params.name]  # fmt: skip
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=one) for one in said])

    return prompt


def main() -> None:
    with tempfile.TemporaryDirectory() as home, app.connect(home=home) as plane:
        context = plane.client.context
        found = over_http(with_fixtures(build(lambda _: context)))
        served = Starlette(routes=[Mount("/mcp", found.app)], lifespan=lambda _: found.run())
        uvicorn.run(served, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
