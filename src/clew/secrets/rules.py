"""Rules: what a secret looks like, and what only looks like one. Read from TOML in the format of gitleaks.

A file can add rules, replace a rule by its id, disable rules (`[extend] disabledRules`) and allow more texts
(`[[allowlists]]`, for all rules or for `targetRules`). Paths and commits have no meaning in a transcript and are
ignored.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

import msgspec

from clew.model.errors import InvalidInput

BUNDLED = ("gitleaks.toml", "clew.toml")
OWN = "secrets.toml"
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TARGETS = ("", "secret", "match", "line")
# gitleaks reads files, where a secret ends at a quote, a space or the end of the line. In a sentence, a URL or a page
# a secret ends at any character that is not part of a word.
_ENDING = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_ANY_ENDING = r"(?:[^0-9A-Za-z_-]|$)"


class Allow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A text that is not a secret: a regex matches the secret (the match, the line), or a stopword is in the secret."""

    description: str = ""
    condition: str = "OR"
    regex_target: str = ""
    regexes: tuple[str, ...] = ()
    stopwords: tuple[str, ...] = ()
    target_rules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A kind of secret. A text without its `keywords` has none. `entropy`: its least randomness in bits per byte."""

    id: str
    regex: str = ""
    keywords: tuple[str, ...] = ()
    entropy: float = 0.0
    secret_group: int = 0
    allowlists: tuple[Allow, ...] = ()
    description: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""

    @property
    def is_broad(self) -> bool:
        """Whether a rule for a single provider is preferred to this one."""
        return "broad" in self.tags or self.id.startswith("generic")


class Extend(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    disabled_rules: tuple[str, ...] = ()


class Rules(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The content of one rule file, or of several joined."""

    rules: tuple[Rule, ...] = ()
    allowlists: tuple[Allow, ...] = ()
    allowlist: Allow | None = None
    extend: Extend = Extend()
    title: str = ""
    min_version: str = ""


def bundled() -> Rules:
    """The rules that come with clew."""
    folder = resources.files("clew.secrets")
    joined_rules = joined(_parsed((folder / name).read_text("utf-8")) for name in BUNDLED)
    rules = (
        msgspec.structs.replace(rule, regex=rule.regex.replace(_ENDING, _ANY_ENDING)) for rule in joined_rules.rules
    )
    return msgspec.structs.replace(joined_rules, rules=tuple(rules))


def with_own(home: str | Path) -> Rules:
    """The rules that come with clew, and the person's own rules in the clew home."""
    path = Path(home) / OWN
    if not home or not path.exists():
        return bundled()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error
    return joined((bundled(), own(text, str(path))))


def own(text: str, source: str) -> Rules:
    """The rules in a person's file; raises an error with the line of an invalid rule."""
    try:
        parsed = _parsed(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{source} is not valid TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{source}{_line_of(text, str(error))}: {error}; docs/secrets.md shows the form") from error
    for i, rule in enumerate(parsed.rules):
        _check(rule, f"{source}{_line_of(text, f'rules[{i}]')}: rule {rule.id!r}")
    for i, allow in enumerate(parsed.allowlists):
        _check_allow(allow, f"{source}{_line_of(text, f'allowlists[{i}]')}: allow-list {i + 1}")
    return parsed


def joined(files: Iterable[Rules]) -> Rules:
    """The rules of all files: a later rule replaces an earlier rule of the same id."""
    rules: dict[str, Rule] = {}
    allowlists: list[Allow] = []
    for file in files:
        rules.update((rule.id, rule) for rule in file.rules if rule.regex)
        for id in file.extend.disabled_rules:
            rules.pop(id, None)
        allowlists += [file.allowlist] if file.allowlist else []
        allowlists += file.allowlists
    return Rules(rules=tuple(rules.values()), allowlists=tuple(allowlists))


def _parsed(text: str) -> Rules:
    return msgspec.convert(tomllib.loads(text), Rules)


def _check(rule: Rule, what: str) -> None:
    if not _ID.fullmatch(rule.id):
        raise InvalidInput(f"{what}: an id is up to 64 lower-case letters, digits and hyphens, such as acme-api-key")
    if not rule.regex:
        raise InvalidInput(f"{what} has no regex, so it can find nothing")
    groups = _compiled(rule.regex, what).groups
    if not 0 <= rule.secret_group <= groups:
        raise InvalidInput(f"{what}: secretGroup is {rule.secret_group}, but the regex has {groups} groups")
    for i, allow in enumerate(rule.allowlists):
        _check_allow(allow, f"{what}, allow-list {i + 1}")


def _check_allow(allow: Allow, what: str) -> None:
    if allow.regex_target not in _TARGETS:
        raise InvalidInput(f"{what}: regexTarget is {allow.regex_target!r}; it can be secret, match or line")
    if not allow.regexes and not allow.stopwords:
        raise InvalidInput(f"{what} has neither regexes nor stopwords, so it allows nothing")
    for regex in allow.regexes:
        _compiled(regex, what)


def _compiled(regex: str, what: str) -> "re.Pattern[bytes]":
    from clew.secrets.patterns import compiled

    try:
        return compiled(regex)
    except ValueError as error:
        raise InvalidInput(
            f"{what}: the regex {regex!r} is not a valid RE2 regex: {error}; RE2 has neither look-around nor "
            "back-references"
        ) from error


def _line_of(text: str, path: str) -> str:
    """The line on which a rule or an allow-list begins, from its index among the others."""
    named = re.search(r"(rules|allowlists)\[(\d+)\]", path)
    if named is None:
        return ""
    lines = [i for i, line in enumerate(text.split("\n"), 1) if line.split("#")[0].strip() == f"[[{named[1]}]]"]
    return f", line {lines[int(named[2])]}" if int(named[2]) < len(lines) else ""
