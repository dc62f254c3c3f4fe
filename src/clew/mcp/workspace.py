"""The tool `workspace`, the files of a session: one tool for all of them, because each costs a schema."""

from typing import Annotated, Any, Literal

import msgspec

from clew.mcp.outgoing import LONGEST, Answer, answer, mask_of, values_of
from clew.service import Context, call

DESCRIPTION = """
Keep the files you work on: `snapshot` before a risky change and after one that works, `log` lists seqs, `diff` compares
up to `at`, `list` a folder, `read` a file, `blame` its lines, `restore` all or `path`, undone at `undo`. `save` `text`
as artifact `path`; `progress` shows it to the next session, too; `artifacts` lists, or reads `path`.
"""

# So many entries of a folder are enough for an llm; a folder below it has the others.
LISTED = 200


class Workspace(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    session_id: Annotated[str, msgspec.Meta(description="The session.")]
    action: Annotated[
        Literal[
            "snapshot", "log", "diff", "list", "read", "blame", "restore", "usage", "save", "progress", "artifacts"
        ],
        msgspec.Meta(description="What to do."),
    ]  # fmt: skip
    at: Annotated[int, msgspec.Meta(description="A seq.")] = 0
    path: Annotated[str, msgspec.Meta(description="A file.")] = ""
    text: Annotated[str, msgspec.Meta(description="To save.")] = ""
    folder: Annotated[str, msgspec.Meta(description="If not the session's.")] = ""


def run(context: Context, given: dict[str, Any]) -> Answer:
    """Carry out the operation that the action stands for."""
    operation, arguments = _asked(context, given)
    values = values_of(call(context, operation, arguments), mask_of(context), LONGEST)
    name = {"usage": "projects", "artifacts": "artifacts"}.get(given["action"], "snapshots")
    return answer({name: values} if isinstance(values, list) else dict(values), stored=True)


def _asked(context: Context, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    session, path = {"session": given["session_id"]}, given.get("path", "")
    at = {"at": given["at"]} if given.get("at") else {}
    folder = {"folder": given["folder"]} if given.get("folder") else {}
    match given["action"]:
        case "snapshot":
            return "workspace_snapshot", session | folder
        case "log":
            return "workspace_log", session
        case "diff":
            upto = {"upto": given["at"]} if at else {}
            return "workspace_diff", {"left": given["session_id"], **upto, **({"path": path} if path else {})}
        case "list":
            return "workspace_tree", session | at | {"path": path, "limit": LISTED}
        case "read":
            return "workspace_cat", session | at | {"path": path or "."}
        case "blame":
            return "blame", session | at | {"path": path or "."}
        case "usage":
            return "workspace_usage", {
                "project": context.store.session(given["session_id"], context.reach(None)).project
            }
        case "save" | "progress" as action:
            text = {"text": given.get("text", ""), "progress": action == "progress"}
            return "artifact_save", session | text | {"name": path}
        case "artifacts":
            return ("artifact_get", session | at | {"name": path}) if path else ("artifact_list", session)
        case _:
            return "workspace_restore", session | at | folder | ({"paths": [path]} if path else {})
