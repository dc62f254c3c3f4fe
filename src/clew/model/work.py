"""The kinds of what a session makes: artifacts, commits, and snapshots of its workspace (events.py)."""

from clew.model.object_names import ObjectNameOrNone
from clew.model.opaque import Body
from clew.model.parts import FileChange, Workspace


class ArtifactSaved(Body, frozen=True, kw_only=True):
    kind = "artifact_saved"
    durable = True
    name: str
    blob: ObjectNameOrNone
    size: int
    media_type: str = ""
    progress: bool = False
    """Whether it says how far the work is, so that the next session of the project is shown it."""


class WorkspaceSnapshotted(Body, frozen=True, kw_only=True):
    """The files as they are. `changed` files are not as in the snapshot before; `changes` are the first of them."""

    kind = "workspace_snapshotted"
    durable = True
    snapshot: str
    blob: ObjectNameOrNone = ""
    label: str = ""
    restores: str = ""
    git: ObjectNameOrNone = ""
    workspace: Workspace = Workspace()
    changed: int = 0
    changes: tuple[FileChange, ...] = ()


class CommitsMade(Body, frozen=True, kw_only=True):
    """Commits of git that were made in the folder of the session while it was at work."""

    kind = "commits_made"
    durable = True
    commits: tuple[str, ...]
    branch: str = ""
    folder: str = ""
    machine: str = ""


class WorkspaceRestored(Body, frozen=True, kw_only=True):
    kind = "workspace_restored"
    durable = True
    snapshot: str
    blob: ObjectNameOrNone = ""
    paths: tuple[str, ...] = ()
    git: ObjectNameOrNone = ""
    workspace: Workspace = Workspace()
