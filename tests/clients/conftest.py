"""What the tests with real clients share: one session per client, and the matrix of who goes on where."""

import functools
from collections.abc import Callable, Iterator

import pytest
from xdist.scheduler import LoadScopeScheduling

from clients.drivers import CLIENTS
from clients.matrix import Cell, HardCell, as_hard_table, as_table, versions, write, write_hard
from clients.sources import Source


class BySource(LoadScopeScheduling):
    """Gives all tests of one client's session to one process, so that the session is made once."""

    def _split_scope(self, nodeid: str) -> str:
        parameters = nodeid.partition("[")[2]
        return next((runtime for runtime in CLIENTS if parameters.startswith(runtime)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> BySource:
    return BySource(config, log)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Source]:
    """The session of each client, made when it is first asked for."""
    return functools.cache(lambda runtime: Source(CLIENTS[runtime], tmp_path_factory.mktemp(runtime)))


@pytest.fixture(params=CLIENTS)
def made(request: pytest.FixtureRequest, sources: Callable[[str], Source]) -> Source:
    """A session of two turns, made by each of the real clients."""
    return sources(request.param)


@pytest.fixture
def source(made: Source) -> Source:
    """The same, captured."""
    if not made.session:
        made.capture()
    return made


@pytest.fixture
def gone(source: Source) -> Iterator[None]:
    """The client's home is not there while the test runs."""
    away = source.place.home.with_name("away")
    source.place.home.rename(away)
    yield
    away.rename(source.place.home)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the matrix; what a test tells of its cell, pytest-xdist brings home in the report."""
    cells, hard = [], []
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            said = dict(report.user_properties)
            if "into" in said and (report.when == "call" or not report.passed):
                hard.append(HardCell(said["source"], said["kind"], said["into"], report.passed))
            elif report.when == "call" and "target" in said:
                cells.append(Cell(said["source"], said["target"], report.passed, said.get("seconds", 0)))
    if hard:
        terminalreporter.section("which client goes on with whose hard conversations")
        terminalreporter.write_line(as_hard_table(hard))
        if note := write_hard(hard, config.rootpath / "docs/runtimes/hard.md"):
            terminalreporter.write_line(note)
    if not cells:
        return
    terminalreporter.section("the clients, and what changed against the pins")
    for line in versions():
        terminalreporter.write_line(line)
    terminalreporter.section("which client goes on with whose session (seconds)")
    terminalreporter.write_line(as_table(cells))
    if note := write(cells, config.rootpath / "docs/runtimes/matrix.md"):
        terminalreporter.write_line(note)
