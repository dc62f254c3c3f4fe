"""The kinds of what a session makes: artifacts, and snapshots of its workspace (events.py)."""

from clew.model.object_names import ObjectNameOrNone
from clew.model.opaque import Body
from clew.model.parts import Workspace


class ArtifactSaved(Body, frozen=True, kw_only=True):
    kind = "artifact_saved"
    durable = True
    name: str
    blob: ObjectNameOrNone
    size: int
    media_type: str = ""


class WorkspaceSnapshotted(Body, frozen=True, kw_only=True):
    kind = "workspace_snapshotted"
    durable = True
    snapshot: str
    blob: ObjectNameOrNone = ""
    label: str = ""
    restores: str = ""
    workspace: Workspace = Workspace()


class WorkspaceRestored(Body, frozen=True, kw_only=True):
    kind = "workspace_restored"
    durable = True
    snapshot: str
    blob: ObjectNameOrNone = ""
    paths: tuple[str, ...] = ()
    workspace: Workspace = Workspace()
