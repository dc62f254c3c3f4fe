"""The command line. Nothing heavy is imported before it is known what was asked."""

import sys


def main() -> None:
    """The `clew` command."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from clew import __version__

        print(f"clew {__version__}")
        return
    from clew.cli.run import run

    sys.exit(run())
