"""Opens the browser of the person at the terminal, if there is a display."""

import os
import sys
from pathlib import Path


def open_browser(home: Path, link: str) -> None:
    """Open a link with its secret: by a page in the home, because every account can read the arguments of a browser."""
    if not _has_display():
        return
    import threading
    import webbrowser

    from clew.server.login.own_secret import write_login_page

    threading.Timer(0.5, webbrowser.open, [write_login_page(home, link).as_uri()]).start()


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
