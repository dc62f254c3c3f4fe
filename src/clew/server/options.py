"""The options of a server: whose it is, its host names, its limits."""

from typing import NamedTuple
from urllib.parse import urlsplit

MIB = 1024 * 1024
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Oidc(NamedTuple):
    """The OpenID provider that people log in with, and which of its people get access."""

    issuer: str
    client_id: str
    client_secret: str = ""
    """Empty for a client without one, which PKCE alone protects."""
    domains: frozenset[str] = frozenset()
    """E-mail domains whose people need not be added first."""
    team_claim: str = ""
    """The claim that names a person's teams; without it, owners decide about teams."""

    def __repr__(self) -> str:
        return f"<provider {self.issuer}>"


class Options(NamedTuple):
    """`own_secret`: the server of one person on their own machine, whose browser knows this secret."""

    own_secret: str = ""
    public_url: str = ""
    """The address that clients use, if there is a proxy in front of the server."""
    hosts: tuple[str, ...] = ()
    """The host names that it answers to, without a port; empty allows any."""
    most_bytes: int = 16 * MIB
    """The largest body of a request, before and after decompressing it."""
    body_seconds: float = 60.0
    """How long a body may take to arrive."""
    rate: float = 500.0
    """Requests per second of one principal, over time."""
    burst: float = 1000.0
    """Requests of one principal at once, the size of its token bucket."""
    streams: int = 256
    """Open streams of one principal, in all processes."""
    threads: int = 40
    """Operations at once: enough for all callers of a busy moment to share a commit."""
    heartbeat_seconds: float = 15.0
    stream_seconds: float = 3600.0
    """How long a stream lasts before it ends and its client reconnects, maybe to another process."""
    recheck_seconds: float = 1.0
    """How often the rights of listeners are checked again."""
    logs_requests: bool = True
    traces: bool = False
    oidc: Oidc | None = None
    worker: int | None = None
    """The number of this process among several that serve together; None when it serves alone."""

    @property
    def is_own(self) -> bool:
        """Whether this is the server of one person on their own machine."""
        return bool(self.own_secret)

    @property
    def is_secure(self) -> bool:
        """Whether browsers use TLS."""
        return self.public_url.startswith("https://")


def is_safe_url(url: str) -> bool:
    """Whether nobody on the way can read what is sent: TLS, or an address of this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))
    )
