"""The operation `files`: which sessions touched a file, a folder or a pattern, and which files were touched most."""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from clew.model.access import Right
from clew.model.path_pattern import is_pattern, like, path_matcher, path_parts
from clew.service.find.filters import Project, in_project, project_keys, same_path
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.store.projects import list_projects
from clew.views.contract import LONGEST, storable
from clew.views.files import TouchedFile, name_of

# A search among all paths reads at most so many rows.
MOST_ROWS = 100_000


class FileTouch(msgspec.Struct, frozen=True, kw_only=True):
    """A session that touched a path: how often, and the seqs of the last read and the last write.

    In a list of files, so many `sessions` touched the path, `read` and `written` are sums, and the session is the last.
    """

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
    sessions: int = 0
    person: str = ""
    """Whose session it is."""


@operation(right=Right.READ, route="GET /files", filters_by_reach=True, reads_views=True)
def files(
    context: Context,
    path: Annotated[str, msgspec.Meta(description="A file, a folder (src/) or a pattern ('src/**/*.py').")] = "",
    *,
    project: Project = "",
    written: Annotated[bool, msgspec.Meta(description="Only sessions that wrote it.")] = False,
    by_file: Annotated[
        bool, msgspec.Meta(description="List the files of a folder or a pattern instead of the sessions, summed up.")
    ] = False,
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000, description="How many at the most.")] = 50,
) -> list[FileTouch]:
    """Tell which sessions touched a file, an app or a data source, and how, newest first.

    A path is a name, the end of a path or all of it; a folder (src/) or a pattern ('src/**/*.py') names what is in it.
    Without a path: the files that most sessions touched.
    """
    context.views.catch_up()
    only: dict[str, Any] = in_project(project_keys(context, project, Right.READ)) if project else {}
    only |= context.reach(Right.READ)
    if not path or by_file:
        return _most_touched(context, path, only, written=written, limit=limit)
    touches = [] if is_pattern(path) else _of_file(context, path, only)
    if is_pattern(path) or "." not in name_of(path):  # What has no ending can be a folder, too.
        touches = sorted([*touches, *_matching(context, path, only)], key=lambda touched: -touched.last_at)
    chosen = [touched for touched in touches if touched.written or not written][:limit]
    names = list_projects(context.store)
    return [_file_touch(touched, names) for touched in chosen]


def _of_file(context: Context, path: str, only: dict[str, Any]) -> list[TouchedFile]:
    with context.views.read() as tx:
        rows = tx.run("files_by_name", name=name_of(path), limit=MOST_ROWS, **only)
    return [touched for touched in (TouchedFile(*row) for row in rows) if same_path(path, touched.what)]


def _matching(context: Context, path: str, only: dict[str, Any]) -> list[TouchedFile]:
    """What was touched in a folder, or at paths of a pattern."""
    if not path_parts(path):
        return []
    pattern = _pattern(path)
    matches = path_matcher(pattern)
    with context.views.read() as tx:
        rows = tx.run("files_like", like=storable(like(pattern)), limit=MOST_ROWS, **only)
    return [touched for touched in (TouchedFile(*row) for row in rows) if matches(touched.what)]


def _pattern(path: str) -> str:
    """A pattern as it is given, or that of all that is in a folder."""
    return path[:LONGEST] if is_pattern(path) else f"{path[:LONGEST]}/"


def _most_touched(context: Context, path: str, only: dict[str, Any], *, written: bool, limit: int) -> list[FileTouch]:
    """The files that most sessions touched, of all or of those that a path names, each with the last session."""
    matches = _names_file(path)
    given = {**only, "limit": MOST_ROWS if path else limit} | (
        {"like": storable(like(path[-LONGEST:]))} if path else {}
    )
    names = list_projects(context.store)
    with context.views.read() as tx:
        if not context.reach(Right.READ):  # Whoever may read all sessions needs no sums of their own.
            rows = tx.run("paths_most_written" if written else "paths_most", **given)
            chosen = [row for row in rows if matches(row[2])][:limit]
            return [
                msgspec.structs.replace(_file_touch(TouchedFile(*touched), names), sessions=sessions)
                for *touched, sessions in chosen
            ]
        sums = [row for row in tx.run("files_most", least_written=int(written), **given) if matches(row[1])][:limit]
        most: list[FileTouch] = []
        for project, file, name, sessions, read, changed in sums:
            at_path = {**only, "project": project, "path": file, "least_written": int(written)}
            [row] = tx.run("files_by_name", name=name, type="file", limit=1, **at_path)
            touch = _file_touch(TouchedFile(*row), names)
            most.append(msgspec.structs.replace(touch, sessions=sessions, read=int(read), written=int(changed)))
    return most


def _names_file(path: str) -> Callable[[str], bool]:
    """Whether a path names a file: its name or end, the folder that it is in, or a pattern."""
    if not path:
        return lambda file: True
    if is_pattern(path):
        return path_matcher(_pattern(path))
    in_folder = path_matcher(_pattern(path)) if path_parts(path) else lambda file: False
    return lambda file: same_path(path, file) or in_folder(file)


def _file_touch(touched: TouchedFile, projects: dict[int, str]) -> FileTouch:
    return FileTouch(
        session=touched.id, title=touched.title, runtime=touched.runtime, project=projects.get(touched.project, ""),
        type=touched.type, path=touched.what, read=touched.read, written=touched.written,
        read_seq=touched.read_seq, written_seq=touched.written_seq, last_at=touched.last_at, person=touched.person,
    )  # fmt: skip
