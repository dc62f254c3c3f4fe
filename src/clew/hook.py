"""The hook forwarder: agent programs run `python -m clew.hook EVENT RUNTIME` and hand it their hook input on stdin.

It runs inside somebody's agent, so it stays out of the way: it imports no other part of clew, prints nothing but a
brief, always exits with 0, and leaves the work to a process in the background. Two things happen, below clew's home:

* At the start of a new session it prints `briefs/<digest of the directory>.txt` in the program's own words, once for
  each session: `briefs/given/` remembers.
* At any other event it leaves a note in `spool/`, one file of one JSON line, and starts `clew capture --spool` unless
  one runs. A note names the session and where it is, never a prompt, tool input or tool output.

A capture holds a lock on `spool/lock` from before its first instruction until it ends or unlocks the descriptor that
CLEW_SPOOL_LOCK names. It must look into the spool once more after unlocking: a note that came in between started
nobody. A full spool (SPOOL_NOTES) and a note without a session both mean: look at all sessions of these programs.
Hidden files in the spool are notes being written; one that is a minute old was cut off, and is the capture's to remove.
"""

import fcntl
import os
import select
import sys
import time

TYPE_CHECKING = False  # Importing typing costs more than everything this does.
if TYPE_CHECKING:
    from typing import Any

# For each program: the event that starts a session, what it calls a new one (None: it does not say), and the path to
# the text in what it wants printed.
STARTS: "dict[str, tuple[str, str | None, tuple[str, ...]]]" = {
    "claude-code": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "codex": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "gemini-cli": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "copilot-cli": ("sessionStart", "new", ("additionalContext",)),
    "cursor": ("sessionStart", None, ("additional_context",)),
    # These two are told by a plugin of ours (runtimes/connect/connections.py).
    "opencode": ("session_start", "startup", ("additionalContext",)),
    "pi": ("session_start", "startup", ("additionalContext",)),
}

INPUT_SECONDS = 1.0
# Parsed is what fits; the rest is still read, because a program may take a closed pipe for a failed hook.
INPUT_BYTES = 4 * 1024 * 1024
DRAINED_BYTES = 256 * 1024 * 1024
BRIEF_BYTES = 4096
SPOOL_NOTES = 1000
BRIEFS_REMEMBERED = 1000
LONGEST_PATH = 4096
LONGEST_NAME = 200


def main() -> None:
    """Forward one event. Never raises, and ends the process: whatever goes wrong here is no concern of the agent's."""
    try:
        forward(sys.argv[1:])
    finally:
        os._exit(0)


def command() -> list[str]:
    """The fastest way to run this, for settings: without site-packages, and deaf to the directory it is run in."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__)]


def forward(arguments: list[str]) -> None:
    """Do what an event asks for: `[--home DIR] EVENT RUNTIME`."""
    home = os.environ.get("CLEW_HOME") or "~/.clew"
    if arguments[0] == "--home":
        home, arguments = arguments[1], arguments[2:]
    event, runtime = arguments
    home = os.path.abspath(os.path.expanduser(home))
    data = read_input()
    if not os.path.isdir(home) or runtime not in STARTS or not is_name(event):
        return
    facts = parse(data)
    if event == STARTS[runtime][0]:
        inject(home, runtime, facts)
    else:
        spool(home, runtime, event, facts)
        start_capture(home)


# Input ----------------------------------------------------------------------------------------------------------------


def read_input() -> bytes:
    """What the program says on stdin; nothing when that is too much, or takes too long."""
    pieces: list[bytes] = []
    size = 0
    deadline = time.monotonic() + INPUT_SECONDS
    try:
        while size < DRAINED_BYTES and select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(0, 1 << 20)
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            pieces = [*pieces, piece] if size <= INPUT_BYTES else []
    except OSError:
        pass
    return b""


def parse(data: bytes) -> "dict[str, Any]":
    """The object that the program sent; an empty one for anything else."""
    # The scanner that json itself uses: importing json takes as long as the interpreter's start.
    from _json import make_scanner

    class Context:
        strict = False
        object_hook = object_pairs_hook = array_hook = None
        parse_float = parse_int = parse_constant = staticmethod(lambda text: None)  # No number is of use here.

    try:
        # Types of the private module differ from version to version; the tests hold this.
        scan: Any = make_scanner(Context)  # type: ignore[arg-type]
        value, _ = scan(data.decode().lstrip(), 0)
    # A SystemError is how it says "malformed" where json is not imported.
    except (ValueError, RecursionError, StopIteration, SystemError):
        return {}
    return value if isinstance(value, dict) else {}


def is_name(value: object) -> bool:
    """Whether it is a plain word: an id, or the name of an event."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_NAME
        and value.isascii()
        and (value.replace("-", "").replace("_", "").replace(".", "").replace(":", "").isalnum())
    )


def is_path(value: object) -> bool:
    """Whether it is an absolute path that fits on a line."""
    return isinstance(value, str) and value.startswith("/") and len(value) <= LONGEST_PATH and value.isprintable()


def session_of(facts: "dict[str, Any]") -> str:
    return next((str(facts[k]) for k in ("session_id", "sessionId", "conversation_id") if is_name(facts.get(k))), "")


def cwd_of(facts: "dict[str, Any]") -> str:
    roots = facts.get("workspace_roots")
    cwd = facts.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "")
    return str(cwd) if is_path(cwd) else ""


# The brief ------------------------------------------------------------------------------------------------------------


def inject(home: str, runtime: str, facts: "dict[str, Any]") -> None:
    """Print the brief for the session's directory, if the session is new and never got one."""
    event, new, shape = STARTS[runtime]
    session, cwd = session_of(facts), cwd_of(facts)
    if not session or not cwd or (new and facts.get("source") != new):
        return
    text = read_brief(os.path.join(home, "briefs", brief_name(cwd)))
    if not text or not remember_given(os.path.join(home, "briefs", "given"), f"{runtime}.{session}"):
        return
    from _json import encode_basestring_ascii as quoted

    said = f"{{{quoted(shape[-1])}: {quoted(text)}}}"
    if len(shape) == 2:
        said = f"{{{quoted(shape[0])}: {{{quoted('hookEventName')}: {quoted(event)}, {said[1:]}}}"
    os.write(1, said.encode() + b"\n")


def brief_name(cwd: str) -> str:
    """The name of the file with the brief for a directory."""
    from hashlib import sha256

    return sha256(os.fsencode(os.path.realpath(cwd))).hexdigest() + ".txt"


def read_brief(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(BRIEF_BYTES).decode(errors="ignore").strip()
    except OSError:
        return ""


def remember_given(folder: str, name: str) -> bool:
    """Whether this is the first time; false too when it cannot be remembered."""
    os.makedirs(folder, 0o700, exist_ok=True)
    try:
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    given = os.listdir(folder)
    if len(given) > BRIEFS_REMEMBERED:
        forget_oldest(folder, given)
    return True


def forget_oldest(folder: str, names: list[str]) -> None:
    """Remove the older half; a session that old does not start anew."""
    paths = sorted((os.path.join(folder, name) for name in names), key=lambda path: os.stat(path).st_mtime_ns)
    for path in paths[: len(paths) // 2]:
        os.unlink(path)


# The spool ------------------------------------------------------------------------------------------------------------


def spool(home: str, runtime: str, event: str, facts: "dict[str, Any]") -> None:
    """Leave a note that a session has grown."""
    from _json import encode_basestring_ascii as quoted

    folder = os.path.join(home, "spool")
    os.makedirs(folder, 0o700, exist_ok=True)
    if len(os.listdir(folder)) > SPOOL_NOTES:
        return
    path = facts.get("transcript_path") or facts.get("transcriptPath")
    note = {
        "runtime": runtime,
        "transcript_path": str(path) if is_path(path) else "",
        "session_id": session_of(facts),
        "cwd": cwd_of(facts),
        "event": event,
    }
    now = time.time_ns()
    said = ", ".join(f"{quoted(name)}: {quoted(value)}" for name, value in note.items())
    line = f'{{{said}, "at": {now // 1000}}}\n'.encode()
    name = f"{runtime}-{now}-{os.getpid()}.json"
    # Under a name that a capture does not look at until the line is complete.
    hidden = os.path.join(folder, "." + name)
    descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        complete = os.write(descriptor, line) == len(line)
    except OSError:
        complete = False
    os.close(descriptor)
    if complete:
        os.rename(hidden, os.path.join(folder, name))
    else:
        os.unlink(hidden)


def start_capture(home: str) -> None:
    """Start a capture in the background, unless one runs; it inherits the lock, so there is never a second one."""
    opened = os.open(os.path.join(home, "spool", "lock"), os.O_CREAT | os.O_RDWR, 0o600)
    # Away from 0, 1 and 2, which the agent may have closed.
    lock = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 10)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    if os.fork():
        return
    try:
        os.setsid()
        os.nice(10)
        os.chdir(home)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        # Whatever the agent left open is not for a process that outlives it.
        os.closerange(3, lock)
        os.closerange(lock + 1, 256)
        os.set_inheritable(lock, True)
        program = [sys.executable, "-E", "-P", "-m", "clew", "capture", "--spool"]
        environment = os.environ | {"CLEW_HOME": home, "CLEW_SPOOL_LOCK": str(lock)}
        os.execve(program[0], program, environment)  # noqa: S606 - a fixed program; subprocess takes 10 ms to import
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
