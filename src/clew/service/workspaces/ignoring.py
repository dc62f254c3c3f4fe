"""Which files a snapshot leaves out: caches and installed packages, what .gitignore and .clewignore say, and secrets.

The last rule that matches decides: first the list below, then the ignore files from the top down, .clewignore after
.gitignore. So `!node_modules` in a .clewignore takes it in. Nothing takes .git in. What looks like a secret is
listed, so that nobody misses it unawares.
"""

import os
from typing import Self

from blake3 import blake3
from pathspec import GitIgnoreSpec

GIT = b".git"
IGNORE_FILES = (b".gitignore", b".clewignore")
# An ignore file that is larger is none.
LONGEST_IGNORE_FILE = 1024 * 1024
# What programs make again by themselves.
CACHES = frozenset(
    b"node_modules bower_components .venv venv .virtualenv __pycache__ .mypy_cache .pytest_cache .ruff_cache "
    b".hypothesis .tox .nox .eggs .cache .parcel-cache .turbo .next .nuxt .svelte-kit .gradle .terraform .dart_tool "
    b".pnpm-store .yarn .bundle .hg .svn .jj .DS_Store Thumbs.db .import_linter_cache .direnv "
    b".ipynb_checkpoints".split()
)
CACHE_ENDINGS = (b".pyc", b".pyo", b".egg-info", b".swp", b".swo", b"~")
# A folder with this file holds a cache, says the program that made it.
CACHE_TAG = b"CACHEDIR.TAG"
CACHE_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55"
SECRETS = frozenset(
    b".env .envrc .npmrc .pypirc .netrc _netrc .pgpass .git-credentials .htpasswd .ssh .gnupg .aws .azure .kube "
    b"id_rsa id_dsa id_ecdsa id_ed25519 credentials.json .dockercfg .vault-token".split()
)
SECRET_ENDINGS = (b".pem", b".key", b".p12", b".pfx", b".jks", b".keystore", b".kdbx", b".ppk", b".age", b".tfstate")
EXAMPLES = (b".example", b".sample", b".template", b".dist")
# What a restore writes before it has its name.
UNFINISHED = b".clew-new-"


def is_secret(name: bytes) -> bool:
    """Whether the name of a file or folder says that it holds secrets."""
    name = name.lower()
    if name in SECRETS or name.endswith(SECRET_ENDINGS):
        return True
    return name.startswith(b".env.") and not name.endswith(EXAMPLES)


def is_cache(name: bytes) -> bool:
    """Whether a program makes it again by itself, by its name."""
    return name in CACHES or name.endswith(CACHE_ENDINGS)


class Rules:
    """The rules for the content of one folder: those of the folders above it, and its own."""

    def __init__(self, *, with_secrets: bool) -> None:
        self.with_secrets = with_secrets
        self.digest = blake3(b"rules 1" + bytes([with_secrets])).digest(16)
        self._specs: tuple[tuple[bytes, GitIgnoreSpec], ...] = ()

    def below(self, folder: bytes, texts: list[bytes]) -> Self:
        """These rules with those of the ignore files in a folder."""
        if not texts:
            return self
        rules = type(self)(with_secrets=self.with_secrets)
        lines = [line for text in texts for line in text.decode("utf-8", "surrogateescape").split("\n")]
        rules._specs = (*self._specs, (folder, _spec(lines)))
        rules.digest = blake3(b"\0".join([self.digest, folder, *texts])).digest(16)
        return rules

    def decide(self, path: bytes, name: bytes, *, is_folder: bool) -> str:
        """Why something is left out: `ignored` or `secret`; empty for what is taken in."""
        for folder, spec in reversed(self._specs):
            below = os.fsdecode(path[len(folder) + 1 :] if folder else path)
            verdict = spec.check_file(f"{below}/" if is_folder else below).include
            if verdict is not None:
                if not verdict:
                    return ""
                return "secret" if is_secret(name) and not self.with_secrets else "ignored"
        if is_secret(name):
            return "" if self.with_secrets else "secret"
        return "ignored" if is_cache(name) else ""


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """The patterns of an ignore file; a line that is none ignores nothing, as in git."""
    lines = [line.rstrip("\r") for line in lines]
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
