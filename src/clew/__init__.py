"""clew keeps the thread of every AI-agent session."""

__version__ = "0.1.0"
__all__ = ["__version__", "connect", "connect_async"]

TYPE_CHECKING = False  # Type checkers take it for true; importing the one from typing costs more than all of this.
if TYPE_CHECKING:
    from clew.app import connect, connect_async


def __getattr__(name: str) -> object:
    # Lazy, so that `import clew` costs nothing to programs that only ask for the version.
    if name in ("connect", "connect_async"):
        from clew import app

        return getattr(app, name)
    raise AttributeError(f"module 'clew' has no attribute {name!r}")
