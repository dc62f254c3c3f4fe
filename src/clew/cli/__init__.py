"""The command line. It imports only what the command needs, so that it starts fast."""

import sys


def main() -> None:
    """The `clew` command."""
    try:
        _main()
    except KeyboardInterrupt:
        # It came while clew was being loaded or was ending; in between, run() handles it.
        print("\nstopped", file=sys.stderr)
        sys.exit(130)


def _main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from clew import __version__

        print(f"clew {__version__}")
        return
    if sys.argv[1:] == ["capture"]:
        from clew.capture_cache import cached_report

        report = cached_report()
        if report is not None and _print_report(report):
            return
    from clew.cli.run import run

    sys.exit(run())


# The columns of the table of a capture; they fit a terminal of 80 columns.
CAPTURED = ("runtime", "found", "new", "grown", "damaged", "records", "opaque", "quarantined")


def _print_report(rows: list[list[str]]) -> bool:
    """Print the table; False if only the whole command line can print it."""
    if sys.stdout.isatty():
        from clew.cli.output import table

        table(CAPTURED, rows)
        return True
    from clew.cli.plain_table import lines

    text = "\n".join(lines(CAPTURED, rows))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        print(text, flush=True)
    except UnicodeEncodeError:
        return False
    except BrokenPipeError:
        import os

        # The reader closed the pipe. Without this, Python prints an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    return True
