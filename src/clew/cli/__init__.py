"""The command line. Nothing heavy is imported before it is known what was asked."""

import sys


def main() -> None:
    """The `clew` command."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from clew import __version__

        print(f"clew {__version__}")
        return
    if sys.argv[1:] == ["capture"]:
        from clew.capture_cache import cached_report

        report = cached_report()
        if report is not None and _say(report):
            return
    from clew.cli.run import run

    sys.exit(run())


# The table of a capture; it fits a terminal of 80 columns.
CAPTURED = ("runtime", "found", "new", "grown", "damaged", "records", "opaque", "quarantined")


def _say(rows: list[list[str]]) -> bool:
    """Print the table; False if it takes more than this to print it."""
    if sys.stdout.isatty():
        from clew.cli.output import table

        table(CAPTURED, rows)
        return True
    from clew.cli.piped import lines

    text = "\n".join(lines(CAPTURED, rows))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        print(text, flush=True)
    except UnicodeEncodeError:
        return False
    except BrokenPipeError:
        import os

        # Whoever read it has left, and Python would say so at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    return True
