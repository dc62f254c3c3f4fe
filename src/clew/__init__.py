"""clew keeps the thread of every AI-agent session."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]

if TYPE_CHECKING:
    from clew.app import connect


def __getattr__(name: str) -> Any:
    # Lazy, so that `import clew` costs nothing to programs that only ask for the version.
    if name == "connect":
        from clew.app import connect

        return connect
    raise AttributeError(f"module 'clew' has no attribute {name!r}")
