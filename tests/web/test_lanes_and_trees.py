"""Where sessions are on the axis of the timeline, where files are in their tree, and what rights are called."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from clew.model.access import ROLES
from clew.server.web.file_tree import DEEPEST, File, Folder, projects_of
from clew.server.web.lanes import MOST_ROWS, lanes, ticks
from clew.server.web.rights_in_words import rights_in_words
from clew.service.sessions.line import SessionLine

HOUR = 3_600_000_000
START = 1_588_550_400_000_000
END = START + 24 * HOUR


def line(id: str, began: int, last: int, status: str = "idle") -> SessionLine:
    return SessionLine(
        id=id, project="p", agent="a", title="", state="active", head=1, opened_at=0, last_at=last, began_at=began,
        status=status,
    )  # fmt: skip


def test_sessions_at_the_same_time_are_in_rows_of_their_own() -> None:
    first, second, third = (line("1", START, START + 6 * HOUR), line("2", START + 3 * HOUR, START + 9 * HOUR),
                            line("3", START + 7 * HOUR, START + 8 * HOUR))  # fmt: skip
    [lane] = lanes([third, first, second], lambda line: line.agent, start=START, end=END, now=END)
    assert [(bar.line.id, bar.x, bar.width) for bar in lane.bars] == [
        ("1", 0.0, 25.0), ("2", 12.5, 25.0), ("3", 29.167, 4.167),
    ]  # fmt: skip
    assert lane.bars[0].y == lane.bars[2].y < lane.bars[1].y


def test_what_is_going_on_reaches_until_now_and_nothing_leaves_the_axis() -> None:
    going = line("1", START - HOUR, START + HOUR, "active")
    far = line("2", 2**62, 2**62)
    [lane] = lanes([going, far], lambda line: "one", start=START, end=END, now=START + 12 * HOUR)
    assert [(bar.x, bar.width) for bar in lane.bars] == [(0.0, 50.0), (99.5, 0.5)]
    crowd = [line(str(number), START, END) for number in range(MOST_ROWS + 3)]
    [lane] = lanes(crowd, lambda line: "one", start=START, end=END, now=END)
    assert (len(lane.bars), lane.more, lane.sessions) == (MOST_ROWS, 3, MOST_ROWS + 3)


def test_the_axis_has_round_times_and_few_of_them() -> None:
    zone = datetime(2020, 5, 4, tzinfo=UTC)
    for hours in (1, 6, 24, 168, 720, 8760):
        marks = ticks(END - hours * HOUR, END, zone)
        assert 3 <= len(marks) <= 9, hours
        assert all(mark.at % (5 * HOUR // 60) == 0 for mark in marks)
    assert [mark.x for mark in ticks(START, START + 6 * HOUR, zone)] == [16.667, 33.333, 50.0, 66.667, 83.333]


def paths(folder: Folder) -> list[str]:
    return [file.path for _, file in folder.files] + [
        path for child in folder.folders.values() for path in paths(child)
    ]


def depth(folder: Folder) -> int:
    return 1 + max((depth(child) for child in folder.folders.values()), default=0)


@given(st.lists(st.text(st.sampled_from("ab/\\. "), min_size=1, max_size=80), unique=True, max_size=12))
def test_each_file_is_in_the_tree_once_and_no_tree_is_deep(names: list[str]) -> None:
    files = [File("p", name, 1, 1, 2, 3) for name in names]
    trees = projects_of(files)
    assert sorted(path for tree in trees for path in paths(tree)) == sorted(names)
    assert all(depth(tree) <= DEEPEST + 2 for tree in trees)
    assert sum(tree.count for tree in trees) == len(names)


def test_a_folder_in_a_folder_alone_is_one_entry() -> None:
    [shop] = projects_of(
        [File("shop", "/home/ada/shop/src/a.py", 1, 0, 1, 1), File("shop", "/home/ada/shop/b.md", 1, 1, 0, 2)]
    )
    [top] = shop.folders.values()
    assert (top.name, list(top.folders), [name for name, _ in top.files], top.count) == (
        "/home/ada/shop",
        ["src"],
        ["b.md"],
        2,
    )


def test_rights_are_called_by_their_role() -> None:
    assert {rights_in_words(rights) for rights in ROLES.values()} == set(ROLES)
    assert rights_in_words(["read", "append"]) == "append, read"
