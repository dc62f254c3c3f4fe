"""What identifies a repository: the address of its remote, which is the same on every machine; and readable names.

Everything here reads text that somebody else wrote: a configuration, an address, the name of a folder.
"""

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

# The ports that an address can leave out.
_PORTS = {"ssh": "22", "http": "80", "https": "443", "git": "9418", "ftp": "21", "ftps": "990"}
_URL = re.compile(r"(?:git\+)?([A-Za-z][A-Za-z0-9.-]*)(?:\+git)?://(.*)", re.DOTALL)
# `[user@]host:path`. One letter before the colon is a drive of Windows.
_SCP = re.compile(r"(?:([^@/\\:\[\]]+)@)?(\[[^\]/]+\]|[^@/\\:\[\]]{2,}):(?!/{2})(.+)", re.DOTALL)
# `helper::anything`: only the helper knows what is meant.
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\\n]|\\.)*)")?\s*\](.*)')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}
LONGEST_ADDRESS = 500
LONGEST_NAME = 100
# What turns the direction of text or cannot be seen: it could make two names look alike.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff/\\]"
)


def remote_in(configuration: str) -> str:
    """The URL of the remote `origin` in a repository's configuration, or of the only remote; empty without one."""
    urls: dict[str, str] = {}
    remote = ""
    for line in configuration.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        text = line.strip()
        if section := _SECTION.match(text):
            remote, text = _remote_of(section[1], section[2]), section[3].strip()
        pair = _KEY.match(text) if remote else None
        if pair and pair[1].lower() == "url":
            urls.setdefault(remote, _value(pair[2]))
    if "origin" in urls:
        return urls["origin"]
    return next(iter(urls.values())) if len(urls) == 1 else ""


def _remote_of(section: str, subsection: str | None) -> str:
    """The name of the remote that a section is about; empty for any other section."""
    if subsection is not None:
        return re.sub(r"\\(.)", r"\1", subsection) if section.lower() == "remote" else ""
    kind, _, name = section.partition(".")
    return name.lower() if kind.lower() == "remote" else ""


def _value(text: str) -> str:
    """A value without quotes, escapes and the comment after it."""
    characters: list[str] = []
    is_quoted, rest = False, iter(text)
    for character in rest:
        if character == "\\":
            escaped = next(rest, "")
            characters.append(_ESCAPES.get(escaped, escaped))
        elif character == '"':
            is_quoted = not is_quoted
        elif character in "#;" and not is_quoted:
            break
        else:
            characters.append(character)
    return "".join(characters).strip()


def address_of(url: str) -> str:
    """A remote's address as `host/path`: without scheme, user, password, query and `.git`.

    The address is empty for a path on this machine, and for what no repository's host is named in.
    """
    # Bytes that are no UTF-8 are spelled out, so that two addresses stay different.
    url = url.strip().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if len(url) > LONGEST_ADDRESS or _HELPER.match(url):
        return ""
    if match := _URL.fullmatch(url):
        return _address_of_url(match[1].lower(), match[2])
    if match := _SCP.fullmatch(url):
        user, host, path = match.groups()
        return _joined(host, _own_path(user or "", path))
    return ""


def _address_of_url(scheme: str, rest: str) -> str:
    if scheme == "file":
        return ""
    authority, _, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    host, port = _host_and_port(host)
    path = unquote(re.split(r"[?#]", path, maxsplit=1)[0])
    if path.startswith("~/"):
        path = _own_path(user.partition(":")[0], path)
    return _joined(host if port in ("", _PORTS.get(scheme)) else f"{host}:{port}", path)


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, port = text.partition("]")
        return f"{host}]", port.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port


def _own_path(user: str, path: str) -> str:
    """A path; one in the home folder of a user of the host belongs to that user."""
    is_relative = not path.startswith("/")
    in_home = path.startswith("~/") or (is_relative and "/" not in path.strip("/"))
    if not in_home or user in ("", "git"):
        return path
    return f"~{user}/{path.removeprefix('~/')}"


def _joined(host: str, path: str) -> str:
    host = host.lower().rstrip(".")
    names = [name for name in path.split("/") if name]
    if names and names[-1].lower().endswith(".git"):
        names[-1] = names[-1][:-4]
    if names and not names[-1]:
        names.pop()
    return unicodedata.normalize("NFC", _UNSAFE.sub("_", host) + "/" + "/".join(map(_safe, names))) if names else ""


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)


def path_in(url: str) -> str:
    """The path that a remote on this machine is at; empty for any other remote."""
    url = url.strip()
    if url.lower().startswith("file://"):
        return unquote(url[7:].removeprefix("localhost"))
    if _URL.fullmatch(url) or _SCP.fullmatch(url) or _HELPER.match(url):
        return ""
    return url


def project_names(place: str) -> Iterator[str]:
    """The names that a project can have, best first: of its folder or repository, with the one above, then numbered.

    `place` is an address or a path. The last names never end.
    """
    names = [name for part in re.split(r"[/\\]+", place) if (name := readable_name(part))]
    name = names[-1] if names else "root"
    yield name
    if len(names) > 1:
        name = readable_name(f"{names[-2]}-{name}") or name
        yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def readable_name(text: str) -> str:
    """A folder's name as a project's: in any script, without what a terminal or a command would take for its own."""
    name = _UNSAFE.sub("_", unicodedata.normalize("NFC", text))
    name = " ".join(name.split())
    if name.lower().endswith(".git"):
        name = name[:-4]
    return name.strip(" -*")[:LONGEST_NAME].rstrip()
