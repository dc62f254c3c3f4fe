"""Every decoder that a process with threads may need, built before its threads start.

msgspec analyses a Struct type when the type is first used, and publishes the analysis before it is complete. A second
thread that uses the type at that moment reads a null pointer, and the process dies (msgspec 0.22.0). A complete
analysis is only read, so it is safe.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from clew.service.kernel.registry import load

# Operations load these only when they need them, which could be in two threads at once.
LOADED_LATE = ("clew.runtimes", "clew.secrets", "clew.views", "clew.service")


def build_decoders() -> None:
    """Load every module that operations use, and let msgspec analyse every Struct type that is loaded."""
    load()
    for name in LOADED_LATE:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    from clew.runtimes import broken

    broken()  # This loads the adapters of other packages.
    for kind in struct_types(msgspec.Struct):
        # Some types hold values that are not JSON, such as functions; nothing is decoded into those.
        with suppress(TypeError, NameError):
            msgspec.json.Decoder(kind)


def struct_types(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Every type below this one that is loaded."""
    for subtype in type.__subclasses__(kind):
        yield subtype
        yield from struct_types(subtype)
