"""The parameters of a command, made from those of its operation."""

import enum
import types
import typing
from typing import Any

import click
import msgspec

from clew.cli.options import FolderPath, SessionId, TouchedPath, complete_id, flag_of, takes_a_path
from clew.service.kernel.registry import Parameter

JSON = click.Option(["--json", "as_json"], is_flag=True, help="One JSON object per line.")


def parameter_of(parameter: Parameter) -> click.Parameter:
    """The argument or the option for a parameter of an operation."""
    # The second name is the name of the operation's parameter.
    flag = flag_of(parameter)
    if parameter.is_session:
        return _session_parameter(parameter, flag)
    kind = _plain_type(parameter.type)
    if parameter.required:
        return _required_argument(parameter, kind)
    if not parameter.by_name:
        several = -1 if parameter.name == "query" else 1  # The words of a query need no quotes.
        own_type = TouchedPath() if parameter.name == "path" else None
        label = f"[{parameter.name.upper()}]"
        return click.Argument([parameter.name], nargs=several, type=own_type, required=False, metavar=label)
    words = [_description(parameter.type)]
    if parameter.default not in (None, "", False):
        words.append(f"[default: {parameter.default}]")
    help = " ".join(word for word in words if word) or None
    several = typing.get_origin(_bare(parameter.type)) is list
    if kind is bool:
        return click.Option([flag, parameter.name], is_flag=True, default=None, help=help)
    if kind is dict:
        return click.Option([flag, parameter.name], type=JsonObject(), metavar="JSON", help=help)
    if issubclass(kind, enum.Enum):
        choice = click.Choice([str(member) for member in kind])
        return click.Option([flag, parameter.name], type=choice, default=None, multiple=several, help=help)
    shown = _METAVARS.get(parameter.name)
    short = ["-n"] if flag == "--limit" else []
    return click.Option(
        [*short, flag, parameter.name], type=kind, default=None, multiple=several, metavar=shown, help=help
    )


def _required_argument(parameter: Parameter, kind: type) -> click.Argument:
    when = takes_a_path(parameter)
    own_type = FolderPath(when) if when else kind
    return click.Argument([parameter.name], type=own_type, metavar=parameter.name.upper())


def _session_parameter(parameter: Parameter, flag: str) -> click.Parameter:
    if parameter.by_name:
        help = _BY_NAME.get(parameter.name)
        return click.Option(
            [flag, parameter.name], metavar="ID", type=SessionId(), default=None, help=help, shell_complete=complete_id
        )
    label = "ID" if parameter.name == "session" else parameter.name.upper()
    label = label if parameter.required else f"[{label}]"
    required = parameter.required
    return click.Argument(
        [parameter.name], required=required, metavar=label, type=SessionId(), shell_complete=complete_id
    )


def _bare(kind: Any) -> Any:
    """The type without Annotated and `| None`."""
    if typing.get_origin(kind) is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _bare(next(member for member in typing.get_args(kind) if member is not type(None)))
    return kind


_METAVARS = {
    "lease": "EPOCH", "at": "SEQ", "project": "NAME", "agent": "NAME", "person": "NAME", "runtime": "NAME",
    "machine": "NAME", "model": "NAME", "tool": "NAME", "file": "PATH", "when": "TIME", "since": "TIME",
    "remote": "NAME", "top": "N", "tag": "TAG", "quiet_since": "TIME",
    "until": "TIME", "after": "NEXT", "limit": "N", "evidence": "SEQ", "expect": "SEQ", "fact": "ID", "decision": "ID",
    "folder": "DIR", "days": "DAYS", "keep_days": "DAYS", "seconds": "SECONDS", "principal": "NAME", "who": "NAME",
    "tokens": "N", "budget_tokens": "N", "usd": "USD", "budget_usd": "USD", "owner": "NAME", "holder": "NAME",
    "match_runtime": "NAME", "match_path": "GLOB", "match_name": "GLOB",
}  # fmt: skip


# Sessions that are given by name have no annotation of their own.
_BY_NAME = {"session": "Only this session.", "before": "Only the sessions that follow this one in the list."}


class JsonObject(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return msgspec.json.decode(value, type=dict[str, Any])
        except msgspec.DecodeError as error:
            self.fail(f"this is not a valid JSON object: {error}", param, ctx)


def _description(kind: Any) -> str:
    """The description in the annotation."""
    if typing.get_origin(kind) is typing.Annotated:
        metas = (meta.description for meta in kind.__metadata__ if isinstance(meta, msgspec.Meta))
        return next((description for description in metas if description), "")
    return next((text for inner in typing.get_args(kind) if (text := _description(inner))), "")


def _plain_type(kind: Any) -> type:
    """The bare type behind Annotated and `| None`."""
    if typing.get_origin(kind) is typing.Annotated:
        return _plain_type(typing.get_args(kind)[0])
    arguments = [member for member in typing.get_args(kind) if member is not type(None)]
    if typing.get_origin(kind) is dict:
        return dict
    return _plain_type(arguments[0]) if arguments else kind
