"""The OpenAPI 3.1 description, made from the operations: signatures become schemas, docstrings become the text."""

import types
import typing
from functools import cache
from typing import Any

import msgspec

import clew
from clew.model.events import KINDS, Body, Event
from clew.model.ids import ALPHABET, LENGTH
from clew.server.http.arguments import LARGEST, kind_of
from clew.server.http.endpoints import Endpoint
from clew.server.http.problems import STATUS, Refusal
from clew.server.streams.sse import LARGEST_ID
from clew.service.kernel.registry import Parameter

REF = "#/components/schemas/{name}"
SESSION_ID = {
    "type": "string",
    "pattern": f"^[{ALPHABET}]{{1,{LENGTH}}}$",
    "format": "session",
    "description": "The id of a session, or a beginning of it that no other has.",
}
# Parameters whose form no schema can express; their description does.
FORMATS = {"when": "moment", "since": "moment", "until": "moment"}
BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
EVENT = {
    "title": "Event",
    "type": "object",
    "description": "Something that happened: what every event has, then the fields of its kind.",
    "properties": {
        "session": {"type": "string"},
        "seq": {"type": "integer", "minimum": 1},
        "kind": {"type": "string"},
        "at": {"type": "integer", "description": "Microseconds since 1970, by the store's clock."},
        "actor": {"type": "string"},
        "source": {"type": "string"},
        "said_at": {"type": "integer"},
        "removed": {"type": "string"},
        "opaque": {},
        "position": {"type": "integer"},
    },
    "required": ["session", "seq", "kind", "at", "actor", "position"],
}


def openapi(endpoints: list[Endpoint], *, url: str = "") -> dict[str, Any]:
    results = [endpoint.result for endpoint in endpoints if endpoint.result is not type(None)]
    schemas, components = msgspec.json.schema_components(
        [*map(_as_sent, results), Refusal, *map(_as_drafted, _drafted())], ref_template=REF
    )
    result_schemas = dict(zip(map(str, results), schemas, strict=False))
    drafts = dict(zip((body.kind for body in _drafted()), schemas[len(results) + 1 :], strict=True))
    components["FlatEvent"] = EVENT
    components["Draft"] = _draft(drafts, components)
    components["SessionId"] = SESSION_ID
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.template, {})[endpoint.method.lower()] = _operation(endpoint, result_schemas)
    _add_base64_patterns([paths, components])
    session = {"name": "session", "in": "path", "required": True, "schema": {"$ref": REF.format(name="SessionId")}}
    paths["/v1/sessions/{session}/stream"] = {"get": _stream("stream_session", "Follow a session.", session)}
    _add_objects(paths, session)
    _add_workspaces(paths, session)
    project = {"name": "project", "in": "query", "schema": {"type": "string"}, "description": "Only this project."}
    only = {
        "name": "only", "in": "query", "schema": {"enum": ["changes"]},
        "description": "Say that something changed in sessions that you may see, and not what.",
    }  # fmt: skip
    paths["/v1/stream"] = {"get": _stream("stream", "Follow a project, or all you may read.", project, only)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "clew", "version": clew.__version__, "description": clew.__doc__ or "Sessions of agents."},
        "servers": [{"url": url or "/"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key: clew_..."}},
            "responses": {"problem": _problem()},
        },
    }


class FlatEvent(msgspec.Struct):
    """Stands for an event in results; `openapi` replaces its schema with EVENT."""


@cache
def _as_sent(kind: Any) -> Any:
    """The type of a result as it is sent: events are flat, no field is left out, verbatim JSON is anything."""
    if kind is Event:
        return FlatEvent
    if kind is msgspec.Raw:
        return Any
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _as_sent(inner[0])
    if inner:
        sent = tuple(map(_as_sent, inner))
        return typing.Union[sent] if origin is types.UnionType else origin[sent]  # noqa: UP007
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = [(field.name, _as_sent(field.type)) for field in msgspec.structs.fields(kind)]
        # A module of its own distinguishes the type from the one that drafts use.
        module = f"sent.{kind.__module__}"
        return msgspec.defstruct(kind.__name__, fields, namespace={"__doc__": kind.__doc__}, module=module)
    return kind


def _as_drafted(kind: type[Body]) -> Any:
    """The type of an event's body as it is received: optional fields stay optional, verbatim JSON is anything."""
    fields = [
        (field.name, Any if field.type is msgspec.Raw else field.type)
        if field.required
        else (field.name, Any if field.type is msgspec.Raw else field.type, None)
        for field in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(kind.__name__, fields, namespace={"__doc__": kind.__doc__}, kw_only=True)


def _add_base64_patterns(schemas: Any) -> None:
    """Add a pattern to the schema of all bytes, however deep it stands."""
    if isinstance(schemas, dict) and schemas.get("contentEncoding") == "base64":
        schemas["pattern"] = BASE64
    inside = schemas.values() if isinstance(schemas, dict) else schemas if isinstance(schemas, list) else ()
    for schema in inside:
        _add_base64_patterns(schema)


def _drafted() -> list[type[Body]]:
    return [body for body in KINDS.values() if not body.reserved]


def _operation(endpoint: Endpoint, results: dict[str, Any]) -> dict[str, Any]:
    operation = endpoint.operation
    first, _, rest = operation.help.partition("\n")
    group = endpoint.template.split("/")[2]
    parameters = {parameter.name: parameter for parameter in operation.parameters}
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": first,
        "description": f"{rest.strip()}\n\nNeeds the right to {operation.right}.".strip(),
        "tags": [group],
        "parameters": [_in_path(parameters[name]) for name in endpoint.names],
        "responses": {"200": _result(endpoint, results), "default": {"$ref": "#/components/responses/problem"}},
    }
    others = [parameter for parameter in operation.parameters if parameter.name not in endpoint.names]
    if endpoint.method in ("GET", "DELETE"):
        description["parameters"] += [_in_query(parameter) for parameter in others]
    else:
        description["requestBody"] = _body(endpoint, others)
    if endpoint.method != "GET":
        description["parameters"].append(
            _header("Idempotency-Key", "The same key and request again get the same answer.")
        )
    if operation.if_match:
        description["parameters"].append(
            _header("If-Match", "The ETag of the session: append only if it is still there.")
        )
    if operation.version is not None:
        description["parameters"].append(_header("If-None-Match", "An ETag: 304 if the session is still there."))
        description["responses"]["304"] = {"description": "Nothing has changed."}
    return description


def _header(name: str, text: str) -> dict[str, Any]:
    forms = {"Idempotency-Key": r"^[!-~]{1,200}$", "If-Match": r'^"[0-9]{1,18}(\.[0-9a-f]{1,8})?"$'}
    schema = {"type": "string", "pattern": forms[name]} if name in forms else {"type": "string"}
    return {"name": name, "in": "header", "description": text, "schema": schema}


def _in_path(parameter: Parameter) -> dict[str, Any]:
    if parameter.is_session:
        schema: dict[str, Any] = {"$ref": REF.format(name="SessionId")}
    else:
        schema = {"minLength": 1, **_schema(parameter)} if kind_of(parameter) is str else _schema(parameter)
    return {"name": parameter.name, "in": "path", "required": True, "schema": schema}


def _in_query(parameter: Parameter) -> dict[str, Any]:
    schema = _schema(parameter)
    description: dict[str, Any] = {"name": parameter.name, "in": "query", "required": parameter.required}
    if "description" in schema:
        description["description"] = schema.pop("description")
    if kind_of(parameter) is dict:
        return {**description, "content": {"application/json": {"schema": schema}}}
    return {**description, "schema": schema}


def _body(endpoint: Endpoint, parameters: list[Parameter]) -> dict[str, Any]:
    properties = {parameter.name: _or_null(parameter, _schema(parameter)) for parameter in parameters}
    if endpoint.operation.drafts:
        properties[endpoint.operation.drafts] = {"type": "array", "items": {"$ref": REF.format(name="Draft")}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    return {"required": bool(schema["required"]), "content": content}


def _schema(parameter: Parameter) -> dict[str, Any]:
    """The schema of a value, without `null` where leaving the value out means the same."""
    if parameter.is_session:
        return dict(SESSION_ID)
    [schema], components = msgspec.json.schema_components([parameter.type], ref_template=REF)
    schema = _inlined(schema, components)
    options = [option for option in schema.pop("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        schema = {**options[0], **schema}
    elif options:
        schema["anyOf"] = options
    if schema.get("type") in ("integer", "number"):
        schema = {"minimum": -LARGEST, "maximum": LARGEST, **schema}
    for text in (schema, schema.get("items", {})):
        if text.get("type") == "string" and "enum" not in text:
            text.setdefault("pattern", r"^[^\x00]*$")
    if parameter.name in FORMATS:
        schema["format"] = FORMATS[parameter.name]
    if not parameter.required and parameter.default not in (None, ""):
        schema["default"] = msgspec.to_builtins(parameter.default)
    return schema


def _or_null(parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    """Allow `null` in a body for a parameter whose default is null: it means the same as leaving it out."""
    if parameter.default is not None or parameter.required:
        return schema
    return {"anyOf": [schema, {"type": "null"}], "description": schema.pop("description", "")}


def _inlined(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A schema without references to components, because schemas of parameters are small."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**components[name], **{key: value for key, value in schema.items() if key != "$ref"}}
    if "anyOf" in schema:
        schema = {**schema, "anyOf": [_inlined(option, components) for option in schema["anyOf"]]}
    if "items" in schema and isinstance(schema["items"], dict):
        schema = {**schema, "items": _inlined(schema["items"], components)}
    return schema


def _draft(drafts: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The schema of a draft: one of our kinds, or a kind of the caller's own, which has a dot in its name."""
    common = {
        "source": {
            "type": "string", "minLength": 1, "maxLength": 1000, "pattern": "^[^~\\x00]",
            "description": "Whose record it is: the same source twice is stored once.",
        },
        "said_at": {"type": "integer", "minimum": -LARGEST, "maximum": LARGEST},
    }  # fmt: skip
    kinds = []
    for kind, schema in drafts.items():
        body = components.pop(schema["$ref"].rpartition("/")[2])
        kinds.append(
            {
                "title": kind,
                "type": "object",
                "description": body.get("description", ""),
                "properties": {"kind": {"const": kind}, **_without_defaults(body["properties"]), **common},
                "required": ["kind", *body.get("required", [])],
                "additionalProperties": False,
            }
        )
    foreign = {
        "title": "a kind of your own",
        "type": "object",
        "properties": {"kind": {"type": "string", "pattern": r"^[a-z]+\.[a-z]+$"}, **common},
        "required": ["kind"],
    }
    return {"title": "Draft", "anyOf": [*kinds, foreign]}


def _without_defaults(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {key: value for key, value in schema.items() if key != "default"} for name, schema in properties.items()
    }


def _result(endpoint: Endpoint, results: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "null"} if endpoint.result is type(None) else results[str(endpoint.result)]
    response: dict[str, Any] = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    names = {parameter.name for parameter in endpoint.operation.parameters}
    if endpoint.method == "GET" and names & {"after", "before"}:
        text = {"schema": {"type": "string"}, "description": "The next page, when there is one: rel=next."}
        response["headers"] = {"Link": text}
    return response


def _stream(name: str, summary: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    after = {
        "name": "after", "in": "query", "description": "Go on after the event with this id.",
        "schema": {"type": "integer", "minimum": 0, "maximum": LARGEST_ID},
    }  # fmt: skip
    return {
        "operationId": name,
        "summary": summary,
        "description": "Server-Sent Events; each has an id to go on from, also as the header Last-Event-ID.",
        "tags": ["streams"],
        "parameters": [*parameters, after],
        "responses": {
            "200": {"description": "Events, as they come.", "content": {"text/event-stream": {}}},
            "default": {"$ref": "#/components/responses/problem"},
        },
    }


def _add_objects(paths: dict[str, dict[str, Any]], session: dict[str, Any]) -> None:
    """Add the routes whose body, or answer, is the bytes of an object or a bundle."""
    octets: dict[str, Any] = {"application/octet-stream": {}}
    problem = {"$ref": "#/components/responses/problem"}

    def given(name: str, where: str, text: str, **schema: Any) -> dict[str, Any]:
        required = where == "path" or name == "name"
        return {"name": name, "in": where, "required": required, "description": text, "schema": schema}

    name = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^\\x00]*[^\\s\\x00][^\\x00]*$"}
    info = paths["/v1/sessions/{session}/objects/{object}/stat"]["get"]["responses"]["200"]
    paths["/v1/sessions/{session}/objects"]["post"] = {
        "operationId": "object_put",
        "summary": "Store an object of any size and name it in a session, as an artifact.",
        "description": "The body is the object. The same bytes under the same name are stored once.\n\n"
        "Needs the right to append.",
        "tags": ["sessions"],
        "parameters": [
            session, given("name", "query", "What to call it.", **name),
            given("media_type", "query", "Its type.", type="string", maxLength=200, pattern="^[^\\x00]*$"),
            given("progress", "query", "Show it to the next session of the project.", type="boolean"),
            given("lease", "query", "The epoch of the lease you hold.", type="integer", minimum=0, maximum=10**17),
        ],
        "requestBody": {"content": octets},
        "responses": {"200": info, "default": problem},
    }  # fmt: skip
    paths["/v1/sessions/{session}/objects/{object}"] = {
        "get": {
            "operationId": "object_open",
            "summary": "Read an object of a session as a stream.",
            "description": "The bytes as they are, or the part that the header Range asks for. Secrets in a text are "
            "masked, and then there are no ranges.\n\nNeeds the right to read.",
            "tags": ["sessions"],
            "parameters": [
                session, given("object", "path", "A name, or a digest or a beginning of one.", **name),
                {"name": "range", "in": "header", "schema": {"type": "string"}, "description": "bytes=FIRST-LAST"},
            ],
            "responses": {
                "200": {"description": "The object.", "content": octets},
                "206": {"description": "A part of the object.", "content": octets},
                "304": {"description": "You have it: If-None-Match is its digest."},
                "416": {"description": "The object has no such part."},
                "default": problem,
            },
        }
    }  # fmt: skip
    paths["/v1/sessions/{session}/bundle"] = {
        "get": {
            "operationId": "bundle_open",
            "summary": "Read a session as a bundle, as a stream.",
            "description": "One file with all that belongs to the session, for an import elsewhere. A session with "
            "secrets in it is refused, because nothing in a bundle can be masked.\n\nNeeds the right to export.",
            "tags": ["sessions"],
            "parameters": [session],
            "responses": {"200": {"description": "The bundle.", "content": octets}, "default": problem},
        }
    }


def _add_workspaces(paths: dict[str, dict[str, Any]], session: dict[str, Any]) -> None:
    """Add the two routes whose answer is the bytes of files."""
    path = {"name": "path", "in": "query", "schema": {"type": "string", "pattern": "^[^\\x00]*$"}}
    at = {
        "name": "at", "in": "query", "description": "As the files were at this event.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 10**17},
    }  # fmt: skip
    file = path | {"required": True, "description": "The file, below the folder of the snapshot."}
    part = path | {"required": False, "description": "Only this file or folder."}
    for route, operation, kind, given, summary in (
        ("raw", "workspace_open", "application/octet-stream", file, "Read a file of a session as a stream."),
        ("tar", "workspace_tar", "application/x-tar", part, "Read the files of a session as a tar archive."),
    ):
        paths[f"/v1/sessions/{{session}}/workspace/{route}"] = {
            "get": {
                "operationId": operation,
                "summary": summary,
                "description": "Secrets are masked in texts; a binary file that holds one is refused, or a note in an "
                "archive.\n\nNeeds the right to read.",
                "tags": ["workspaces"],
                "parameters": [session, given, at],
                "responses": {
                    "200": {"description": "The bytes.", "content": {kind: {}}},
                    "default": {"$ref": "#/components/responses/problem"},
                },
            }
        }


def _problem() -> dict[str, Any]:
    codes = ", ".join(f"{code} ({status})" for code, status in STATUS.items())
    schema = {"$ref": REF.format(name="Refusal")}
    return {"description": f"Refused. Codes: {codes}.", "content": {"application/problem+json": {"schema": schema}}}
