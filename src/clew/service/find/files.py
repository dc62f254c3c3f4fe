"""The operation `files`: which sessions touched a file, and how."""

from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.service.find.filters import Project, project_key, same_path
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.files import TouchedFile, name_of


class FileTouch(msgspec.Struct, frozen=True, kw_only=True):
    """A session that touched a path: how often, and the seqs of the last read and the last write."""

    session: str
    title: str
    runtime: str
    project: str
    type: str
    path: str
    read: int
    written: int
    read_seq: int
    written_seq: int
    last_at: int


@operation(right=Right.READ, route="GET /files", filters_by_reach=True, reads_views=True)
def files(
    context: Context,
    path: str,
    *,
    project: Project = "",
    written: Annotated[bool, msgspec.Meta(description="Only sessions that wrote it.")] = False,
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 50,
) -> list[FileTouch]:
    """Tell which sessions touched a file, an app or a data source, and how, newest first."""
    context.views.catch_up()
    only: dict[str, Any] = {"project": project_key(context, project, Right.READ)} if project else {}
    names = list_projects(context.store)
    with context.views.read() as tx:
        rows = tx.run("files_by_name", name=name_of(path), limit=100_000, **only, **context.reach(Right.READ))
    touches = [
        FileTouch(
            session=touched.id, title=touched.title, runtime=touched.runtime, project=names.get(touched.project, ""),
            type=touched.type, path=touched.what, read=touched.read, written=touched.written,
            read_seq=touched.read_seq, written_seq=touched.written_seq, last_at=touched.last_at,
        )
        for touched in (TouchedFile(*row) for row in rows)
        if same_path(path, touched.what) and (touched.written or not written)
    ]  # fmt: skip
    return touches[:limit]
