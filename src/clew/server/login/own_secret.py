"""The secret of a person's own server. Only an account that can read the person's files can know it.

`clew up` makes it once. Browsers get it from a page in the home, or from the link that `clew up` prints, and then send
it as a cookie. Deleting the file ends the access of all of them.
"""

import os
from pathlib import Path

from clew.model.errors import Unavailable
from clew.service.access.key_text import new_token
from clew.service.handover.program_files import replace

NAME = "up.key"
PAGE = "up.html"
LONGEST = 200


def own_secret(home: Path) -> str:
    """The secret; it is made at the first start, and again if another account could have read or written it."""
    path = home / NAME
    try:
        status = path.stat()
        if status.st_uid == os.geteuid() and not status.st_mode & 0o077 and 0 < status.st_size < LONGEST:
            return path.read_text().strip()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}; it holds the key of `clew up`") from None
    secret = new_token("up").text
    replace(path, f"{secret}\n".encode())
    return secret


def write_login_page(home: Path, link: str) -> Path:
    """A page that leads a browser to the link. The arguments of a browser are public, and so must not hold it."""
    path = home / PAGE
    replace(path, f'<!doctype html><meta charset="utf-8"><title>clew</title><a href="{link}">clew</a>'
                  f"<script>location.replace({link!r})</script>\n".encode())  # fmt: skip
    return path
