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
    if _is_mcp(sys.argv[1:]) and not _greet_over_mcp(sys.argv[1:]):
        return
    from clew.cli.run import run

    sys.exit(run())


def _is_mcp(words: list[str]) -> bool:
    """Whether this is the command that `clew connect` gives an agent program."""
    return words == ["mcp"] or (len(words) == 3 and words[0] == "--home" and words[2] == "mcp")


def _greet_over_mcp(words: list[str]) -> bool:
    """Begin the conversation with the agent program; False if it is over."""
    import os

    from clew.mcp_greeting import greet

    home = os.path.abspath(
        os.path.expanduser(words[1] if len(words) == 3 else os.environ.get("CLEW_HOME") or "~/.clew")
    )

    def list_resources() -> "dict[str, object] | None":
        from clew import app
        from clew.mcp.resources import first_page
        from clew.model.errors import ClewError

        try:
            with app.connect(home=home) as plane:
                return first_page(plane.client.context)
        except ClewError:
            return None  # The server says what is wrong.

    try:
        return greet(home, list_resources)
    except BrokenPipeError:
        return False


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
