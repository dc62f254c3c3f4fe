"""clew keeps the thread of every AI-agent session."""

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]

TYPE_CHECKING = False  # Type checkers take it for true; importing the one from typing costs more than all of this.
if TYPE_CHECKING:
    from clew.app import connect


def __getattr__(name: str) -> object:
    # Lazy, so that `import clew` costs nothing to programs that only ask for the version.
    if name == "connect":
        from clew.app import connect

        return connect
    raise AttributeError(f"module 'clew' has no attribute {name!r}")
