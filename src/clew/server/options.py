"""How a server is run: on whose behalf, under which names, and within which limits."""

from typing import NamedTuple
from urllib.parse import urlsplit

MIB = 1024 * 1024
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Oidc(NamedTuple):
    """The OpenID provider that people log in with, and whom its word lets in."""

    issuer: str
    client_id: str
    client_secret: str = ""
    """Empty for a client that has none; PKCE alone protects it then."""
    domains: frozenset[str] = frozenset()
    """The domains of e-mail addresses whose people come in without being added first."""
    team_claim: str = ""
    """The claim that names somebody's teams; empty leaves teams to owners."""

    def __repr__(self) -> str:
        return f"<provider {self.issuer}>"


class Options(NamedTuple):
    """`is_own` is a server for one person on their own machine, who needs no key."""

    is_own: bool = False
    public_url: str = ""
    """The address under which others reach it, when a proxy stands before it."""
    hosts: tuple[str, ...] = ()
    """The names it answers to, without a port; empty is any."""
    most_bytes: int = 16 * MIB
    """The largest body of a request, and what it may unpack to."""
    body_seconds: float = 60.0
    """How long a body may take to arrive."""
    rate: float = 500.0
    """Requests per second of one key, over time."""
    burst: float = 1000.0
    """Requests of one key at once."""
    threads: int = 40
    """Operations at once: enough for every caller of a busy round to share its commit."""
    heartbeat_seconds: float = 15.0
    stream_seconds: float = 3600.0
    """How long a stream lasts before its listener is asked to come back, maybe to another process."""
    recheck_seconds: float = 1.0
    """How often a listener's rights are looked at again."""
    checkpoint_seconds: float = 60.0
    """How often a team's server signs a checkpoint, if anything is new; 0 is never."""
    logs_requests: bool = True
    traces: bool = False
    oidc: Oidc | None = None
    worker: int | None = None
    """The number of this process among several that serve together; None when it serves alone."""

    @property
    def is_secure(self) -> bool:
        """Whether browsers come over TLS."""
        return self.public_url.startswith("https://")


def is_safe_url(url: str) -> bool:
    """Whether nobody on the way can read along: TLS, or a machine talking to itself."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))
    )
