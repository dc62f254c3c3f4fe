"""The promises of the command line: names, JSON, exit codes, nothing written half."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli.exits import EXITS
from clew.model import errors
from clew.model.errors import ClewError
from support.postgres import Server

from .conftest import Clew

HI = '{"kind": "message_added", "role": "user", "text": "hi"}\n'


def test_open_append_show(clew: Clew, session: str) -> None:
    appended = clew("append", session, stdin=HI + HI)
    assert appended.objects == [{"seq": 2}, {"seq": 3}]
    [first, second, _] = clew("show", session, "--events", "--json").objects
    assert (first["seq"], first["kind"], first["actor"], first["title"]) == (
        1,
        "session_opened",
        "person:ada",
        "Fix the lock",
    )
    assert {name: second[name] for name in ("seq", "kind", "actor", "role", "text")} == {
        "seq": 2,
        "kind": "message_added",
        "actor": "person:ada",
        "role": "user",
        "text": "hi",
    }
    assert isinstance(second["at"], int)


def test_ids_can_be_shortened(clew: Clew, session: str) -> None:
    assert clew("show", session[:6], "--json").objects[0]["session"]["id"] == session


def test_the_same_source_is_acknowledged_and_stored_once(clew: Clew, session: str) -> None:
    line = '{"kind": "message_added", "role": "user", "text": "hi", "source": "a"}\n'
    assert clew("append", session, stdin=line).objects == [{"seq": 2}]
    assert clew("append", session, stdin=line).objects == [{"seq": 2, "deduplicated": True}]
    assert len(clew("show", session, "--events", "--json").objects) == 2


def test_lines_before_a_bad_one_are_kept_and_the_bad_one_is_named(clew: Clew, session: str) -> None:
    run = clew("append", session, "--json", stdin=HI + "\n" + '{"kind": "mesage_added"}\n' + HI)
    assert run.code == 2
    assert run.objects == [{"seq": 2}]
    assert run.error["error"] == "invalid_input"
    assert run.error["line"] == 3
    assert "did you mean 'message_added'" in run.error["message"]
    assert len(clew("show", session, "--events", "--json").objects) == 2


def test_acknowledgements_come_while_input_is_still_open(clew: Clew, home: Path, session: str) -> None:
    environment = {**os.environ, "CLEW_HOME": str(home)}
    command = [sys.executable, "-m", "clew", "append", session]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, bufsize=1
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for seq in (2, 3):
            child.stdin.write(HI)
            child.stdin.flush()
            assert child.stdout.readline() == f'{{"seq":{seq}}}\n'
        child.send_signal(signal.SIGKILL)
    assert len(clew("show", session, "--events", "--json").objects) == 3


def test_a_line_without_an_end_is_a_line(clew: Clew, session: str) -> None:
    assert clew("append", session, stdin=HI.rstrip()).objects == [{"seq": 2}]


def test_expect_holds_over_the_whole_input(clew: Clew, session: str) -> None:
    assert clew("append", session, "--expect", "1", stdin=HI * 3).objects == [{"seq": 2}, {"seq": 3}, {"seq": 4}]
    stale = clew("append", session, "--expect", "1", "--json", stdin=HI)
    assert (stale.code, stale.error["error"], stale.error["head"]) == (4, "stale_head", 4)


def test_the_lifecycle(clew: Clew, session: str) -> None:
    clew("append", session, stdin=HI)
    for command, state in (("pause", "paused"), ("resume", "active"), ("close", "closed"), ("archive", "archived")):
        run = clew(command, session, "--json")
        assert run.code == 0, run.err
        assert run.objects[0]["state"] == state
    refused = clew("resume", session, "--json")
    assert (refused.code, refused.error["error"], refused.error["state"]) == (4, "wrong_state", "archived")


def test_fork_diff_and_lineage(clew: Clew, session: str) -> None:
    clew("append", session, stdin=HI * 3)
    [child] = clew("fork", session, "--at", "2", "--json").objects
    assert (child["parent"], child["upto"], child["head"]) == (session, 2, 3)
    [difference] = clew("diff", session, child["id"], "--json").objects
    assert difference["shared"] == 2
    assert [event["seq"] for event in difference["left"]["events"]] == [3, 4]
    assert clew("fork", session, "--at", "99").code == 2
    lines = clew("diff", session, child["id"]).out.splitlines()
    assert lines[0] == "the two share events 1 to 2"
    assert f"only in {session} (2 events)" in lines
    assert [line.split()[0] for line in lines if " message_added " in line] == ["3", "4"]
    [few] = clew("diff", session, child["id"], "--limit", "1", "--json").objects
    assert (len(few["left"]["events"]), few["left"]["total"]) == (1, 2)
    assert clew("diff", session, child["id"], "--limit", "1").out.count(" message_added ") == 1


def test_tail_prints_the_last_events_of_all(clew: Clew, session: str) -> None:
    clew("append", session, stdin=HI * 3)
    events = clew("tail", "-n", "2", "--json").objects
    assert [(event["session"], event["seq"]) for event in events] == [(session, 3), (session, 4)]
    assert [event["seq"] for event in clew("tail", session, "--after", "2", "--json").objects] == [3, 4]


def test_tail_follows_what_another_process_writes(clew: Clew, home: Path, session: str) -> None:
    command = [sys.executable, "-m", "clew", "tail", "--follow", "--json", "-n", "0"]
    environment = {**os.environ, "CLEW_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, bufsize=1) as child:
        assert child.stdout is not None
        # Append until the first line shows: the follower may still be starting.
        os.set_blocking(child.stdout.fileno(), False)
        seen = ""
        for _ in range(50):
            clew("append", session, stdin=HI)
            seen = child.stdout.readline()
            if seen:
                break
        child.terminate()
        child.wait(timeout=30)
    assert '"kind":"message_added"' in seen


def test_verify_and_doctor_are_content_with_a_sound_store(clew: Clew, session: str) -> None:
    clew("append", session, stdin=HI * 3)
    [verified] = clew("verify", session, "--json").objects
    assert (verified["events"], verified["problems"]) == (4, [])
    doctor = clew("doctor", "--json")
    assert doctor.code == 0, doctor.out
    assert {one["what"] for one in doctor.objects} >= {"clew", "home", "free disk", "store", "integrity", "chains"}


def test_verify_names_the_session_and_seq_of_a_changed_event(clew: Clew, home: Path, session: str) -> None:
    clew("append", session, stdin=HI * 2)
    import apsw

    connection = apsw.Connection(str(home / "clew.db"))
    connection.execute("UPDATE event SET body = replace(body, 'hi', 'ho') WHERE seq = 2")
    connection.close()
    run = clew("verify", "--json")
    assert run.code == EXITS["damaged"]
    [problem] = run.objects[0]["problems"]
    assert (problem["session"], problem["seq"]) == (session, 2)
    assert clew("doctor").code == 1


def test_doctor_speaks_when_the_store_cannot_be_opened(clew: Clew, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "clew.db").write_bytes(b"this is not a database, it is a letter" * 100)
    run = clew("doctor")
    assert run.code == 1
    assert "damaged or is not a clew database" in run.out


def test_the_home_is_private(clew: Clew, home: Path, session: str) -> None:
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "clew.db").stat().st_mode) == 0o600
    home.chmod(0o755)
    run = clew("doctor")
    assert run.code == 1
    assert f"chmod 700 {home}" in run.out


def test_retention_from_the_command_line(clew: Clew, session: str) -> None:
    clew("append", session, stdin=HI)
    assert clew("retention", "set", "default", "--keep-days", "0", "--json").objects[0]["keep_days"] == 0
    assert clew("retention", "list", "--json").objects[0]["project"] == "default"
    [would] = clew("retention", "apply", "--json").objects
    assert (would["session"], would["events"]) == (session, 1)
    asked = clew("retention", "apply")
    assert "nothing was changed; --yes does it" in asked.err
    assert "removed" not in clew("show", session, "--events", "--json").objects[1]
    [pruned] = clew("retention", "apply", "--yes", "--json").objects
    assert (pruned["session"], pruned["events"]) == (session, 1)
    assert clew("show", session, "--events", "--json").objects[1]["removed"] == "pruned"
    assert clew("verify").code == 0
    assert clew("retention", "remove", "default").code == 0
    assert clew("retention", "remove", "default").code == 3


def test_erase_asks_first_and_then_leaves_no_trace(clew: Clew, home: Path, session: str) -> None:
    clew("append", session, stdin=HI.replace("hi", "canary-7f3a"))
    refused = clew("erase", session)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert clew("erase", session, "--yes", "--json").objects[0]["events"] == 2
    assert not [path for path in home.rglob("*") if path.is_file() and b"canary-7f3a" in path.read_bytes()]
    verified = clew("verify")
    assert (verified.code, "(2 bodies removed on record): every chain holds" in verified.out) == (0, True)
    assert clew("append", session, stdin=HI).code == 4


def test_a_hold_forbids_erasure(clew: Clew, session: str) -> None:
    clew("retention", "set", "default", "--hold")
    run = clew("erase", session, "--yes", "--json")
    assert (run.code, run.error["error"]) == (4, "on_hold")


def test_budgets_from_the_command_line(clew: Clew) -> None:
    [opened] = clew("open", "--budget-tokens", "10", "--json").objects
    line = '{"kind": "turn_ended", "usage": {"input": 11}}\n'
    run = clew("append", opened["id"], "--json", stdin=line)
    assert (run.code, run.objects, run.error["error"]) == (4, [{"seq": 2}], "budget_exceeded")
    assert clew("resume", opened["id"]).code == 4
    assert clew("budget", opened["id"], "--tokens", "100").code == 0
    assert clew("resume", opened["id"]).code == 0


def test_leases_from_the_command_line(clew: Clew, session: str) -> None:
    [lease] = clew("lease", "acquire", session, "--holder", "me", "--seconds", "60", "--json").objects
    assert clew("append", session, stdin=HI).code == 4
    epoch = str(lease["epoch"])
    assert clew("append", session, "--lease", epoch, stdin=HI).code == 0
    assert clew("lease", "renew", session, epoch).code == 0
    assert clew("lease", "release", session, epoch).code == 0
    lost = clew("append", session, "--lease", epoch, "--json", stdin=HI)
    assert (lost.code, lost.error["error"]) == (4, "lease_lost")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["show", "zzzz"], 3, "not_found"),
        (["show", "../x"], 2, "invalid_input"),
        (["nonsense"], 2, "invalid_input"),
        (["open", "--budget-tokens", "many"], 2, "invalid_input"),
        (["open", "--metadata", "[1]"], 2, "invalid_input"),
        (["--store", "mysql://user:hunter2@host/x", "sessions"], 2, "invalid_input"),
        (["--store", "postgresql://user:hunter2@127.0.0.1:1/x", "sessions"], 6, "unavailable"),
    ],
)
def test_errors_have_codes_and_keep_secrets(clew: Clew, arguments: list[str], code: int, error: str) -> None:
    run = clew(*arguments, "--json")
    assert (run.code, run.error["error"]) == (code, error)
    assert "hunter2" not in run.err
    assert "Traceback" not in run.err


def test_a_newer_schema_is_refused_and_left_alone(clew: Clew, home: Path, session: str) -> None:
    import apsw

    connection = apsw.Connection(str(home / "clew.db"))
    connection.execute("INSERT INTO clew_schema VALUES (999, 0)")
    connection.close()
    before = (home / "clew.db").read_bytes()
    run = clew("open", "--json")
    assert (run.code, run.error["error"], run.error["found"]) == (9, "schema_newer", 999)
    assert (home / "clew.db").read_bytes() == before


def test_every_error_code_has_an_exit_code() -> None:
    def below(kind: type[ClewError]) -> set[type[ClewError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    codes = {kind.code for kind in below(ClewError)} - {ClewError.code, errors.StoreError.code}
    assert codes == set(EXITS)


def test_control_characters_are_shown_not_obeyed(clew: Clew) -> None:
    [opened] = clew("open", "--title", "\x1b]0;owned\x07\u202eevil", "--json").objects
    clew("append", opened["id"], stdin='{"kind": "message_added", "role": "user", "text": "\\u001b[2Jboo\\u009b"}\n')
    shown = clew("sessions").out + clew("show", opened["id"]).out + clew("show", opened["id"], "--events").out
    assert "\\x1b" in shown
    assert not {"\x1b", "\x07", "\u202e", "\x9b"}.intersection(shown)


def test_rich_markup_in_stored_text_is_not_markup(clew: Clew) -> None:
    clew("open", "--title", "[bold red]x[/] [link=http://evil]y[/link]")
    assert "[bold red]x[/]" in clew("sessions").out


def test_completion_offers_commands_and_ids(clew: Clew, session: str) -> None:
    assert "_CLEW_COMPLETE" in clew("completion", "bash").out
    asked = {"_CLEW_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
    assert session in clew(COMP_WORDS=f"clew show {session[:3]}", **asked).out
    assert "sessions" in clew(COMP_WORDS="clew sess", _CLEW_COMPLETE="bash_complete", COMP_CWORD="1").out


def test_every_command_takes_json(clew: Clew) -> None:
    import click

    from clew.cli.run import clew as root

    def commands(group: click.Group) -> list[click.Command]:
        found: list[click.Command] = []
        for name in group.list_commands(click.Context(group)):
            command = group.commands[name]
            found += commands(command) if isinstance(command, click.Group) else [command]
        return found

    without = [c.name for c in commands(root) if not c.hidden and not any("--json" in p.opts for p in c.params)]
    # A script for a shell, bytes of an object, an artifact or an archive, and programs that go on until stopped.
    assert sorted(filter(None, without)) == ["completion", "demo", "get", "mcp", "open", "serve", "tar", "up"]


def test_a_command_of_every_operation_is_there_or_written_by_hand() -> None:
    import click

    from clew.cli.run import clew as root
    from clew.cli.run import written_by_hand
    from clew.service.kernel.registry import load

    names = root.list_commands(click.Context(root))
    for operation in load().values():
        top = operation.group.name if operation.group is not None else operation.name
        assert operation.hidden or top in names, operation.name
    assert {*written_by_hand()} <= {*names} | {"follow"}


def test_the_result_of_an_operation_is_printed_by_one_function() -> None:
    import inspect
    import pkgutil
    from importlib import import_module

    from clew.cli import results
    from clew.cli.results import printer
    from clew.service.kernel.registry import load

    files = [import_module(f"clew.cli.results.{module.name}") for module in pkgutil.iter_modules(results.__path__)]
    # A count is printed with the list that it counts, and needs the plane to ask for it.
    counts = {operation.counted_by for operation in load().values()}
    for operation in load():
        functions = {vars(file)[name] for file in files if (name := f"print_{operation}") in vars(file)}
        assert functions <= {printer(operation)}, operation
        given = 3 if operation in counts else 1
        assert all(len(inspect.signature(function).parameters) == given for function in functions), operation


def test_printing_a_result_imports_the_file_of_its_function_alone() -> None:
    code = """
import sys
from clew.cli.results import printer
print(printer("share").__name__, *(name for name in sys.modules if name.startswith("clew.cli.results.")))
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["print_access_grant", "clew.cli.results.people"]


def test_a_command_written_by_hand_is_found_by_the_name_of_its_file() -> None:
    import pkgutil

    from clew.cli import commands
    from clew.cli.run import clew as root

    files = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    assert {"append", "capture", "import_"} <= set(files)
    with root.make_context("clew", [], resilient_parsing=True) as context:
        for file in files:
            command = root.get_command(context, file.rstrip("_"))
            assert command is not None
            assert command.name == file.rstrip("_")


def test_a_reader_that_leaves_is_met_with_silence(clew: Clew, home: Path, session: str) -> None:
    clew("append", session, stdin=HI * 500)
    command = [sys.executable, "-m", "clew", "show", session, "--events", "--json"]
    environment = {**os.environ, "CLEW_HOME": str(home)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=30) == 1


def test_migrate_gives_the_role_of_servers_its_rights(clew: Clew, postgres: Server) -> None:
    owner = postgres.walled_database()
    runtime = postgres.stranger(owner)
    name = runtime.partition("//")[2].partition("@")[0]
    missing = clew("sessions", CLEW_STORE=runtime)
    assert missing.code == 1
    assert "the role that owns the tables can give it the rights" in missing.err
    assert "hint: clew doctor" in missing.err
    made = clew("migrate", "--runtime-role", name, CLEW_STORE=owner)
    assert f"role {name}: there already, with its rights renewed; let servers connect as this role\n" in made.out
    assert clew("migrate", "--runtime-role", name, "--json", CLEW_STORE=owner).objects == [
        {"steps": [], "runtime_role": name, "is_new_role": False, "has_new_password": False}
    ]
    assert clew("open", CLEW_STORE=runtime).code == 0
    assert "cannot switch it off" in clew("doctor", CLEW_STORE=runtime).out
    assert "owns the tables and could switch it off" in clew("doctor", CLEW_STORE=owner).out


def test_postgres_is_named_by_the_environment(clew: Clew, postgres: object) -> None:
    url = postgres.walled_database()  # type: ignore[attr-defined]
    [opened] = clew("open", "--json", CLEW_STORE=url).objects
    assert clew("append", opened["id"], stdin=HI, CLEW_STORE=url).objects == [{"seq": 2}]
    assert [one["id"] for one in clew("sessions", "--json", CLEW_STORE=url).objects] == [opened["id"]]
    assert clew("doctor", CLEW_STORE=url).code == 0
    assert clew("sessions", "--json").objects == []
