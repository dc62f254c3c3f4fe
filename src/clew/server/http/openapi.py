"""OpenAPI 3.1 from the operations: their signatures are the schema, their docstrings the text."""

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
from clew.server.streams.sse import FARTHEST
from clew.service.kernel.registry import Parameter

REF = "#/components/schemas/{name}"
SESSION_ID = {
    "type": "string",
    "pattern": f"^[{ALPHABET}]{{1,{LENGTH}}}$",
    "format": "session",
    "description": "The id of a session, or a beginning of it that no other has.",
}
# Texts with a form that a schema cannot tell; the description does.
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
    """The whole description."""
    results = [one.result for one in endpoints if one.result is not type(None)]
    schemas, components = msgspec.json.schema_components(
        [*map(_as_sent, results), Refusal, *map(_as_drafted, _drafted())], ref_template=REF
    )
    told = dict(zip(map(str, results), schemas, strict=False))
    drafts = dict(zip((body.kind for body in _drafted()), schemas[len(results) + 1 :], strict=True))
    components["FlatEvent"] = EVENT
    components["Draft"] = _draft(drafts, components)
    components["SessionId"] = SESSION_ID
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.template, {})[one.method.lower()] = _operation(one, told)
    _say_base64([paths, components])
    session = {"name": "session", "in": "path", "required": True, "schema": {"$ref": REF.format(name="SessionId")}}
    paths["/v1/sessions/{session}/stream"] = {"get": _stream("stream_session", "Follow a session.", session)}
    project = {"name": "project", "in": "query", "schema": {"type": "string"}, "description": "Only this project."}
    paths["/v1/stream"] = {"get": _stream("stream", "Follow a project, or all you may read.", project)}
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
    """Stands in for an event, which goes out flat: its schema is put in later."""


@cache
def _as_sent(kind: Any) -> Any:
    """The type of a result as it goes out: events flat, every field there, verbatim JSON as anything."""
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
        return msgspec.defstruct(kind.__name__, fields, namespace={"__doc__": kind.__doc__}, module=kind.__module__)
    return kind


def _as_drafted(kind: type[Body]) -> Any:
    """The type of a body as it comes in: what is optional stays so, verbatim JSON is anything."""
    fields = [
        (field.name, Any if field.type is msgspec.Raw else field.type)
        if field.required
        else (field.name, Any if field.type is msgspec.Raw else field.type, None)
        for field in msgspec.structs.fields(kind)
    ]
    return msgspec.defstruct(kind.__name__, fields, namespace={"__doc__": kind.__doc__}, kw_only=True)


def _say_base64(schemas: Any) -> None:
    """Say in full what bytes look like, wherever there are any."""
    if isinstance(schemas, dict) and schemas.get("contentEncoding") == "base64":
        schemas["pattern"] = BASE64
    inside = schemas.values() if isinstance(schemas, dict) else schemas if isinstance(schemas, list) else ()
    for one in inside:
        _say_base64(one)


def _drafted() -> list[type[Body]]:
    return [body for body in KINDS.values() if not body.reserved]


def _operation(one: Endpoint, results: dict[str, Any]) -> dict[str, Any]:
    operation = one.operation
    first, _, rest = operation.help.partition("\n")
    group = one.template.split("/")[2]
    parameters = {parameter.name: parameter for parameter in operation.parameters}
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": first,
        "description": f"{rest.strip()}\n\nNeeds the right to {operation.right}.".strip(),
        "tags": [group],
        "parameters": [_in_path(parameters[name]) for name in one.names],
        "responses": {"200": _result(one, results), "default": {"$ref": "#/components/responses/problem"}},
    }
    others = [parameter for parameter in operation.parameters if parameter.name not in one.names]
    if one.method in ("GET", "DELETE"):
        told["parameters"] += [_in_query(parameter) for parameter in others]
    else:
        told["requestBody"] = _body(one, others)
    if one.method != "GET":
        told["parameters"].append(_header("Idempotency-Key", "The same key and request again get the same answer."))
    if operation.if_match:
        told["parameters"].append(_header("If-Match", "The ETag of the session: append only if it is still there."))
    if operation.version is not None:
        told["parameters"].append(_header("If-None-Match", "An ETag: 304 if the session is still there."))
        told["responses"]["304"] = {"description": "Nothing has changed."}
    return told


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
    told: dict[str, Any] = {"name": parameter.name, "in": "query", "required": parameter.required}
    if "description" in schema:
        told["description"] = schema.pop("description")
    if kind_of(parameter) is dict:
        return {**told, "content": {"application/json": {"schema": schema}}}
    return {**told, "schema": schema}


def _body(one: Endpoint, parameters: list[Parameter]) -> dict[str, Any]:
    properties = {parameter.name: _or_null(parameter, _schema(parameter)) for parameter in parameters}
    if one.operation.drafts:
        properties[one.operation.drafts] = {"type": "array", "items": {"$ref": REF.format(name="Draft")}}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    return {"required": bool(schema["required"]), "content": content}


def _schema(parameter: Parameter) -> dict[str, Any]:
    """The schema of a value, without `null` where leaving it out says the same."""
    if parameter.is_session:
        return dict(SESSION_ID)
    [schema], components = msgspec.json.schema_components([parameter.type], ref_template=REF)
    schema = _inlined(schema, components)
    options = [one for one in schema.pop("anyOf", []) if one != {"type": "null"}]
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
    """In a body, `null` says the same as leaving it out, where there is nothing else that it could mean."""
    if parameter.default is not None or parameter.required:
        return schema
    return {"anyOf": [schema, {"type": "null"}], "description": schema.pop("description", "")}


def _inlined(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A schema that stands alone: parameters are small."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**components[name], **{key: value for key, value in schema.items() if key != "$ref"}}
    if "anyOf" in schema:
        schema = {**schema, "anyOf": [_inlined(one, components) for one in schema["anyOf"]]}
    if "items" in schema and isinstance(schema["items"], dict):
        schema = {**schema, "items": _inlined(schema["items"], components)}
    return schema


def _draft(drafts: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A draft is one of the kinds, or a kind of somebody else's, which has a dot."""
    beside = {
        "source": {
            "type": "string", "minLength": 1, "maxLength": 1000, "pattern": "^[^~\\x00]",
            "description": "Whose record it is: the same source twice is stored once.",
        },
        "said_at": {"type": "integer", "minimum": -LARGEST, "maximum": LARGEST},
    }  # fmt: skip
    kinds = []
    for kind, schema in drafts.items():
        found = components.pop(schema["$ref"].rpartition("/")[2])
        kinds.append(
            {
                "title": kind,
                "type": "object",
                "description": found.get("description", ""),
                "properties": {"kind": {"const": kind}, **_without_defaults(found["properties"]), **beside},
                "required": ["kind", *found.get("required", [])],
                "additionalProperties": False,
            }
        )
    foreign = {
        "title": "a kind of your own",
        "type": "object",
        "properties": {"kind": {"type": "string", "pattern": r"^[a-z]+\.[a-z]+$"}, **beside},
        "required": ["kind"],
    }
    return {"title": "Draft", "anyOf": [*kinds, foreign]}


def _without_defaults(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: value for key, value in one.items() if key != "default"} for name, one in properties.items()}


def _result(one: Endpoint, results: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "null"} if one.result is type(None) else results[str(one.result)]
    told: dict[str, Any] = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    names = {parameter.name for parameter in one.operation.parameters}
    if one.method == "GET" and names & {"after", "before"}:
        text = {"schema": {"type": "string"}, "description": "The next page, when there is one: rel=next."}
        told["headers"] = {"Link": text}
    return told


def _stream(name: str, summary: str, place: dict[str, Any]) -> dict[str, Any]:
    after = {
        "name": "after", "in": "query", "description": "Go on after the event with this id.",
        "schema": {"type": "integer", "minimum": 0, "maximum": FARTHEST},
    }  # fmt: skip
    return {
        "operationId": name,
        "summary": summary,
        "description": "Server-Sent Events; each has an id to go on from, also as the header Last-Event-ID.",
        "tags": ["streams"],
        "parameters": [place, after],
        "responses": {
            "200": {"description": "Events, as they come.", "content": {"text/event-stream": {}}},
            "default": {"$ref": "#/components/responses/problem"},
        },
    }


def _problem() -> dict[str, Any]:
    codes = ", ".join(f"{code} ({status})" for code, status in STATUS.items())
    schema = {"$ref": REF.format(name="Refusal")}
    return {"description": f"Refused. Codes: {codes}.", "content": {"application/problem+json": {"schema": schema}}}
