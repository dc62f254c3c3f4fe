"""The tool `workspace`, the files of a session: one tool for all of them, because each costs a schema."""

from typing import Annotated, Any, Literal

import msgspec

from clew.mcp.outgoing import LONGEST, Answer, answer, mask_of, values_of
from clew.service import Context, call

DESCRIPTION = """
Keep the files you work on: `snapshot` before a risky change and after one that works, `log` lists seqs, `diff` compares
up to `at`, `list` a folder, `read` a file, `blame` its lines, `restore` all or `path`, undone at `undo`. `save` `text`
as artifact `path`; `save_progress` shows it to the next session, too; `artifacts` lists, or reads `path`;
`commits` of the session, or of sha `path`.
"""

# So many entries of a folder are enough for an llm; a folder below it has the others.
LISTED = 200


class Workspace(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    session_id: Annotated[str, msgspec.Meta(description="The session.")]
    action: Annotated[
        Literal[
            "snapshot", "log", "diff", "list", "read", "blame", "restore", "usage", "save", "save_progress",
            "artifacts", "commits",
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
    name = {"usage": "projects", "artifacts": "artifacts", "commits": "commits"}.get(given["action"], "snapshots")
    return answer({name: values} if isinstance(values, list) else dict(values), stored=True)


def _asked(context: Context, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    session, path = {"session": given["session_id"]}, given.get("path", "")
    at = {"at": given["at"]} if given.get("at") else {}
    folder = {"folder": given["folder"]} if given.get("folder") else {}
    match given["action"]:
        case "diff":
            upto = {"upto": given["at"]} if at else {}
            return "workspace_diff", {"left": given["session_id"], **upto, **({"path": path} if path else {})}
        case "restore":
            return "workspace_restore", session | at | folder | ({"paths": [path]} if path else {})
        case "artifacts":
            return ("artifact_get", session | at | {"name": path}) if path else ("artifact_list", session)
        case "usage":
            project = context.store.session(given["session_id"], context.reach(None)).project
            return "workspace_usage", {"project": project}
        case action:
            file = session | at | {"path": path or "."}
            saved = session | {"name": path, "text": given.get("text", ""), "progress": action != "save"}
            others: dict[str, tuple[str, dict[str, Any]]] = {
                "snapshot": ("workspace_snapshot", session | folder), "log": ("workspace_log", session),
                "list": ("workspace_tree", session | at | {"path": path, "limit": LISTED}),
                "read": ("workspace_cat", file), "blame": ("blame", file),
                "commits": ("commit", {"sha": path} if path else session),
                "save": ("artifact_save", saved), "save_progress": ("artifact_save", saved),
            }  # fmt: skip
            return others[action]
