"""msgspec crashes the interpreter when two threads use a Struct type for the first time at once; a server must not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 4
# Every Struct type of clew, decoded into by eight threads at once, as the first requests of a busy server are.
RACE = """
import sys, threading
import msgspec
from clew.server.http.application import Application
from clew.service.access.authenticator import Authenticator
from clew.store import open_store

application = Application(Authenticator(open_store(sys.argv[1])))

def kinds(kind):
    for subtype in type.__subclasses__(kind):
        yield subtype
        yield from kinds(subtype)

# Nothing is ever decoded into types that hold functions or other values that are not JSON.
impossible = sys.argv[2].split()
known = [kind for kind in kinds(msgspec.Struct) if f"{kind.__module__}.{kind.__name__}" not in impossible]
assert len(known) > 300, len(known)
sys.setswitchinterval(1e-6)
for kind in known:
    start = threading.Barrier(8)
    # The last field first: it is the one that an analysis which has only begun does not know yet.
    values = [msgspec.json.encode({name: 0}) for name in reversed(kind.__struct_encode_fields__)] or [b"{}"]

    def decode():
        start.wait()
        for value in values:
            try:
                msgspec.json.decode(value, type=kind)
            except (msgspec.DecodeError, TypeError, NameError):
                pass

    threads = [threading.Thread(target=decode) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
application.authenticator.close()
print("alive")
"""
LATE = """
import importlib, pkgutil, sys
import msgspec
from clew.server.http.application import Application
from clew.service.access.authenticator import Authenticator
from clew.store import open_store

application = Application(Authenticator(open_store(sys.argv[1])))
before = set(map(id, type.__subclasses__(msgspec.Struct)))
for name in ("model", "store", "views", "secrets", "runtimes", "service", "consumers"):
    package = importlib.import_module(f"clew.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"clew.{name}."):
        importlib.import_module(module.name)
print([str(kind) for kind in type.__subclasses__(msgspec.Struct) if id(kind) not in before])
application.authenticator.close()
"""


IMPOSSIBLE = """
import msgspec
from clew.service.kernel.decoders import build_decoders, struct_types

import clew.server.http.application
build_decoders()
for kind in struct_types(msgspec.Struct):
    try:
        msgspec.json.Decoder(kind)
    except (TypeError, NameError):
        print(f"{kind.__module__}.{kind.__name__}")
"""


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout.strip()


@pytest.fixture(scope="module")
def impossible() -> str:
    """The types that msgspec cannot decode into at all."""
    return run(IMPOSSIBLE)


@pytest.mark.parametrize("round", range(ROUNDS))
def test_threads_that_meet_at_a_fresh_type_do_not_crash_a_server(tmp_path: Path, impossible: str, round: int) -> None:
    assert run(RACE, f"sqlite:///{tmp_path / 'clew.db'}", impossible) == "alive"


def test_no_struct_type_is_loaded_after_the_decoders_were_built(tmp_path: Path) -> None:
    assert run(LATE, f"sqlite:///{tmp_path / 'clew.db'}") == "[]"
