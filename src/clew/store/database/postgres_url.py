"""The URL of a PostgreSQL database: libpq's parameters, and one of our own. No error repeats a bad URL."""

import re
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from clew.model.errors import InvalidInput
from clew.store.database.postgres_readers import MAX_READERS

MOST_MAX_READERS = 1000


def parse_url(url: str) -> dict[str, Any]:
    """The parameters in the URL. An error does not repeat a bad URL, because any part of it could be the password."""
    try:
        parameters = conninfo_to_dict(url)
    except (psycopg.Error, UnicodeError, ValueError):
        parameters = {"port": "none"}
    if not str(parameters.get("port") or 0).replace(",", "").isdigit():
        raise InvalidInput(
            "the PostgreSQL URL cannot be parsed; expected postgresql://user:password@host:port/name, with any "
            "of : / ? # [ ] @ % in the password written as %3A %2F %3F %23 %5B %5D %40 %25"
        )
    return parameters


def split_max_readers(url: str) -> tuple[str, int]:
    """The URL without our own parameter, which libpq does not know, and its value."""
    match = re.search(r"([?&])max_readers=([^&]*)(&|$)", url)
    if match is None:
        return url, MAX_READERS
    if not match[2].isdecimal() or not 1 <= int(match[2]) <= MOST_MAX_READERS:
        raise InvalidInput(f"max_readers in the PostgreSQL URL must be a number from 1 to {MOST_MAX_READERS}")
    return url[: match.start()] + (match[1] if match[3] else "") + url[match.end() :], int(match[2])


def place_of(parameters: dict[str, Any]) -> str:
    """Where the database is, without who and how."""
    port = f":{parameters['port']}" if parameters.get("port") else ""
    return f"postgresql://{parameters.get('host') or 'local socket'}{port}/{parameters.get('dbname') or ''}"
