"""The hook forwarder: agent programs run `python -m clew.hook EVENT RUNTIME` and hand it their hook input on stdin.

It runs inside a user's agent and must not disturb it: it imports no other part of clew, prints nothing but a brief,
always exits with 0, and leaves the work to a process in the background. It does three things, below clew's home:

* At any event it sets the time of `hooks/<program>`: a program whose hooks never run is found by it.

* At the start of a new session it prints `briefs/<digest of the directory>.txt` as the program expects it, once for
  each session; `briefs/given/` records the sessions that got one.
* At any other event it writes a note into `spool/`, one file with one line of JSON, and starts `clew capture --spool`
  unless one runs already. A note names the session and its file, never a prompt, tool input or tool output.

A capture holds a lock on `spool/lock` from before its first instruction until it ends or unlocks the descriptor that
CLEW_SPOOL_LOCK names. After unlocking it must read the spool once more: a note that was written before the unlock
started no capture. A full spool (SPOOL_NOTES) and a note without a session both mean: capture all sessions of these
programs. Hidden files in the spool are notes that are being written. One that is a minute old was cut off; the capture
removes it.
"""

import fcntl
import os
import select
import sys
import time

TYPE_CHECKING = False  # Importing typing takes longer than all the rest of a hook.
if TYPE_CHECKING:
    from typing import Any

# For each program: the event that starts a session, the `source` that marks a new one (None: the program does not
# say), and the path to the brief in the JSON that it expects.
STARTS: "dict[str, tuple[str, str | None, tuple[str, ...]]]" = {
    "claude-code": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "codex": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "gemini-cli": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "qwen-code": ("SessionStart", "startup", ("hookSpecificOutput", "additionalContext")),
    "copilot-cli": ("sessionStart", "new", ("additionalContext",)),
    "cursor": ("sessionStart", None, ("additional_context",)),
    # A plugin of ours sends the events of these two (runtimes/connect/connections.py).
    "opencode": ("session_start", "startup", ("additionalContext",)),
    "pi": ("session_start", "startup", ("additionalContext",)),
}

INPUT_SECONDS = 1.0
# Longer input is not parsed, but it is read to its end: a program may treat a closed pipe as a failed hook.
INPUT_BYTES = 4 * 1024 * 1024
DRAINED_BYTES = 256 * 1024 * 1024
BRIEF_BYTES = 4096
SPOOL_NOTES = 1000
BRIEFS_REMEMBERED = 1000
LONGEST_PATH = 4096
LONGEST_NAME = 200


def main() -> None:
    """Forward one event, then end the process with 0: an error here must not reach the agent."""
    try:
        forward(sys.argv[1:])
    finally:
        os._exit(0)


def command() -> list[str]:
    """The fastest command that runs this: without site-packages, and without imports from the current directory."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__)]


def forward(arguments: list[str]) -> None:
    """Handle an event. The arguments are `[--home DIR] EVENT RUNTIME`."""
    home = os.environ.get("CLEW_HOME") or "~/.clew"
    if arguments[0] == "--home":
        home, arguments = arguments[1], arguments[2:]
    event, runtime = arguments
    home = os.path.abspath(os.path.expanduser(home))
    data = read_input()
    if not os.path.isdir(home) or runtime not in STARTS or not is_name(event):
        return
    sign_of_life(home, runtime)
    facts = parse(data)
    if event == STARTS[runtime][0]:
        inject(home, runtime, facts)
    else:
        spool(home, runtime, event, facts)
        start_capture(home)


def sign_of_life(home: str, runtime: str) -> None:
    """Record that the hooks of this program run."""
    path = os.path.join(home, "hooks", runtime)
    try:
        os.utime(path)
    except OSError:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


# Input ----------------------------------------------------------------------------------------------------------------


def read_input() -> bytes:
    """What the program writes to stdin; empty if it is too long or takes too long."""
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
    """The JSON object that the program sent; empty if it sent anything else."""
    # The scanner inside the json package: importing json itself takes as long as the interpreter takes to start.
    from _json import make_scanner

    class Context:
        strict = False
        object_hook = object_pairs_hook = array_hook = None
        parse_float = parse_int = parse_constant = staticmethod(lambda text: None)  # Numbers are not needed.

    try:
        # The types of this private module differ between Python versions; the tests check each version.
        scan: Any = make_scanner(Context)  # type: ignore[arg-type]
        value, _ = scan(data.decode().lstrip(), 0)
    # The scanner raises SystemError for malformed JSON while json is not imported.
    except (ValueError, RecursionError, StopIteration, SystemError):
        return {}
    return value if isinstance(value, dict) else {}


def is_name(value: object) -> bool:
    """Whether a value is one plain word, such as an id or the name of an event."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= LONGEST_NAME
        and value.isascii()
        and (value.replace("-", "").replace("_", "").replace(".", "").replace(":", "").isalnum())
    )


def is_path(value: object) -> bool:
    """Whether a value is an absolute path of printable characters."""
    return isinstance(value, str) and value.startswith("/") and len(value) <= LONGEST_PATH and value.isprintable()


def session_of(facts: "dict[str, Any]") -> str:
    """The id of the session; empty if the program sent none."""
    return next((str(facts[k]) for k in ("session_id", "sessionId", "conversation_id") if is_name(facts.get(k))), "")


def cwd_of(facts: "dict[str, Any]") -> str:
    """The working directory; empty if the program sent none."""
    roots = facts.get("workspace_roots")
    cwd = facts.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "")
    return str(cwd) if is_path(cwd) else ""


# The brief ------------------------------------------------------------------------------------------------------------


def inject(home: str, runtime: str, facts: "dict[str, Any]") -> None:
    """Print the brief for the session's directory, if the session is new and got none before."""
    event, new_source, path_to_text = STARTS[runtime]
    session, cwd = session_of(facts), cwd_of(facts)
    if not session or not cwd or (new_source and facts.get("source") != new_source):
        return
    text = read_brief(os.path.join(home, "briefs", brief_name(cwd)))
    if not text or not is_first_brief(os.path.join(home, "briefs", "given"), f"{runtime}.{session}"):
        return
    from _json import encode_basestring_ascii as quoted

    answer = f"{{{quoted(path_to_text[-1])}: {quoted(text)}}}"
    if len(path_to_text) == 2:
        answer = f"{{{quoted(path_to_text[0])}: {{{quoted('hookEventName')}: {quoted(event)}, {answer[1:]}}}"
    os.write(1, answer.encode() + b"\n")


def brief_name(cwd: str) -> str:
    """The name of the file with the brief for a directory."""
    from hashlib import sha256

    return sha256(os.fsencode(os.path.realpath(cwd))).hexdigest() + ".txt"


def read_brief(path: str) -> str:
    """The text of a brief, cut to BRIEF_BYTES; empty if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(BRIEF_BYTES).decode(errors="ignore").strip()
    except OSError:
        return ""


def is_first_brief(folder: str, name: str) -> bool:
    """Record that a session gets its brief; false if it had one before, or if that cannot be recorded."""
    os.makedirs(folder, 0o700, exist_ok=True)
    try:
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    given = os.listdir(folder)
    if len(given) > BRIEFS_REMEMBERED:
        remove_older_half(folder, given)
    return True


def remove_older_half(folder: str, names: list[str]) -> None:
    """Remove the older half of the records; a session that old does not start again."""
    paths = sorted((os.path.join(folder, name) for name in names), key=lambda path: os.stat(path).st_mtime_ns)
    for path in paths[: len(paths) // 2]:
        os.unlink(path)


# The spool ------------------------------------------------------------------------------------------------------------


def spool(home: str, runtime: str, event: str, facts: "dict[str, Any]") -> None:
    """Write a note that a session has grown."""
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
    fields = ", ".join(f"{quoted(name)}: {quoted(value)}" for name, value in note.items())
    line = f'{{{fields}, "at": {now // 1000}}}\n'.encode()
    name = f"{runtime}-{now}-{os.getpid()}.json"
    # A capture skips hidden files, so it never reads half a line.
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
    """Start a capture in the background unless one runs; it inherits the lock, so no second one can start."""
    opened = os.open(os.path.join(home, "spool", "lock"), os.O_CREAT | os.O_RDWR, 0o600)
    # Not 0, 1 or 2: the agent may have closed them, and they are replaced below.
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
        # The capture outlives the agent and must not hold its descriptors open.
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
