"""Who attacks whom: the principals, what they hold, and what must never come back to them or change.

`apricot` attacks and `walnut` is attacked: two tenants on one store. Beside them is a `vault`: a private session with
secrets and a budget, shared with a mole who may read, write and fork it, but neither export it nor change its rules.
"""

import random
from pathlib import Path
from typing import Any, NamedTuple

from clew.model.access import Right, owner_of_everything
from clew.model.events import Draft, FilePart, MessageAdded
from clew.service import Context, call
from clew.service.access.authenticator import Authenticator
from clew.store import Store, open_store
from clew.store.objects import objects
from isolation.tenants import Tenant, tenant
from store.rows import query
from support.fake_secrets import KINDS

ROOT = "person:root"
KEEPER, MOLE, COLLEAGUE = "person:keeper", "person:mole", "person:colleague"
VAULT = "vault"
SECRET_KINDS = ("GITHUB_TOKEN", "GITLAB_TOKEN", "AWS_ACCESS_KEY_ID", "PULUMI_TOKEN")
# So many characters of a secret in a row are a part of it; the first four name its kind.
PART, KIND_LETTERS = 8, 4

Headers = tuple[tuple[str, str], ...]


class Way(NamedTuple):
    """A way to ask: the headers that a caller sends, and the rights that its credential is good for."""

    name: str
    headers: Headers
    rights: frozenset[Right] | None = None
    """None is all that its principal has; none at all is a credential that must be good for nothing."""
    makes: bool = True
    """Whether it may make and end credentials."""


class Vault(NamedTuple):
    session: str
    fork: str
    """The mole's own fork of it."""
    secrets: tuple[str, ...]
    blob: str
    """The digest of an object that only the vault names."""


class World(NamedTuple):
    url: str
    home: str
    ours: Tenant
    theirs: Tenant
    vault: Vault
    ways: dict[str, Way]
    root: str
    """The key of the owner, whom nothing is attacked with."""
    their_blob: str

    def canaries(self) -> list[str]:
        """What no attacker may be shown: of the other tenant, and parts of the vault's secrets."""
        parts = [
            secret[at : at + PART]
            for secret in self.vault.secrets for at in range(KIND_LETTERS, len(secret) - PART + 1)
        ]  # fmt: skip
        return [*self.theirs.words(), *parts]

    def living(self) -> list[Way]:
        return [way for way in self.ways.values() if way.rights is None or way.rights]

    def dead(self) -> list[Way]:
        return [way for way in self.ways.values() if way.rights is not None and not way.rights]


def plant(url: str, home: Path, seed: int) -> World:
    """Fill a new store, and hand out the keys."""
    with open_store(url) as store:
        ours, theirs = tenant(store, "apricot"), tenant(store, "walnut")
        root = _acting(store, ROOT)
        call(root, "principal_add", {"principal": ROOT})
        call(root, "access_grant", {"who": ROOT, "role": "admin"})
        their_blob = _attached(store, theirs.session, f"{theirs.hidden} in a file".encode())
        vault = _vault(store, root, random.Random(seed))
        ways = {way.name: way for way in _ways(store, home, root, ours)}
        (home / "canary.txt").write_text(theirs.hidden)
        root_key = str(call(root, "key_create", {"principal": ROOT}).key)
    return World(url, str(home), ours, theirs, vault, ways, root_key, their_blob)


def _acting(store: Store, who: str) -> Context:
    return Context(store=store, unrestricted=store, principal=who, grants=(owner_of_everything(who),))


def _attached(store: Store, session: str, data: bytes) -> str:
    digest = objects.save(store, data)
    part = FilePart(blob=digest, media_type="text/plain", name="plan.txt")
    store.append(store.session(session), [Draft(body=MessageAdded(role="user", parts=(part,)))], actor=ROOT)
    return str(digest)


def _vault(store: Store, root: Context, chance: random.Random) -> Vault:
    keeper = _acting(store, KEEPER)
    session = call(keeper, "open", {"project": VAULT, "title": "vault", "private": True, "budget_tokens": 10**9}).id
    secrets = tuple(KINDS[kind](chance) for kind in SECRET_KINDS)
    for number, secret in enumerate(secrets):
        text = f"lorem {'ipsum ' * (7 * number)}use {secret} for it, then dolor"
        drafts: list[dict[str, Any]] = [
            {"kind": "message_added", "role": "user", "text": text},
            {"kind": "fact_learned", "fact": f"fact{number}", "text": text},
            {"kind": "call_returned", "call": f"c{number}", "output": {"text": text}},
        ]
        call(keeper, "append", {"session": session, "drafts": drafts})
    blob = _attached(store, session, f"lorem {secrets[0]} dolor".encode())
    writing = ["see", "read", "append", "fork"]
    call(root, "access_grant", {"who": MOLE, "rights": writing, "session": session})
    # They may export what is in the project, and of its private session they may only read.
    call(root, "access_grant", {"who": COLLEAGUE, "role": "writer", "project": VAULT})
    call(root, "access_grant", {"who": COLLEAGUE, "role": "viewer", "session": session})
    mole = Authenticator(store, fresh_seconds=0)
    call(root, "principal_add", {"principal": MOLE})
    call(root, "principal_add", {"principal": COLLEAGUE})
    fork = call(mole.principal_context(MOLE), "fork", {"session": session}).id
    return Vault(session, fork, secrets, blob)


def _ways(store: Store, home: Path, root: Context, ours: Tenant) -> list[Way]:
    authenticator = Authenticator(store, home=str(home), fresh_seconds=0)

    def key(who: str, **more: Any) -> Any:
        return call(root, "key_create", {"principal": who, **more})

    revoked = key(ours.person)
    orphan = authenticator.log_in(revoked.key)
    call(root, "key_revoke", {"key": revoked.id})
    shut_out = key("person:shutout")
    call(root, "access_grant", {"who": "person:shutout", "role": "admin", "project": ours.project})
    call(root, "principal_disable", {"principal": "person:shutout"})
    used = authenticator.new_login_secret(ours.person, given_by=ROOT)
    authenticator.redeem(used)
    see, read = frozenset({Right.SEE}), frozenset({Right.SEE, Right.READ})
    link = call(root, "link", {"session": ours.session}).key
    browser = authenticator.log_in(ours.secret)
    nothing = frozenset[Right]()
    return [
        Way("tenant", bearer(ours.secret)),
        Way("browser", (("Cookie", f"clew={browser}"), ("Origin", "http://{host}"))),
        Way("narrow key", bearer(key(ours.person, scopes=["see", "read"], project=ours.project).key), read, False),
        Way("see-only key", bearer(key(ours.person, scopes=["see"]).key), see, False),
        Way("link", bearer(link), read, False),
        Way("mole", bearer(key(MOLE).key)),
        Way("colleague", bearer(key(COLLEAGUE).key)),
        Way("nobody", (), nothing, False),
        Way("revoked key", bearer(revoked.key), nothing, False),
        Way("browser of a revoked key", (("Cookie", f"clew={orphan}"), ("Origin", "http://{host}")), nothing, False),
        Way("disabled principal", bearer(shut_out.key), nothing, False),
        Way("login as a key", bearer(authenticator.new_login_secret(ours.person, given_by=ROOT)), nothing, False),
        Way("used login", bearer(used), nothing, False),
        Way("browser as a key", bearer(browser), nothing, False),
        Way("key as a cookie", (("Cookie", f"clew={ours.secret}"), ("Origin", "http://{host}")), nothing, False),
        Way("link as a cookie", (("Cookie", f"clew={link}"), ("Origin", "http://{host}")), nothing, False),
    ]


def bearer(secret: str) -> Headers:
    return (("Authorization", f"Bearer {secret}"),)


# State ----------------------------------------------------------------------------------------------------------------


def state(store: Store, world: World) -> set[str]:
    """What no attack may change or add to: all of the other tenant's, the rules of the vault, rights on everything."""
    theirs, ours = world.theirs, world.ours
    sessions = ",".join(f"'{id}'" for id in (theirs.session, theirs.child, theirs.private))
    vault = ",".join(f"'{id}'" for id in (world.vault.session, world.vault.fork))
    # Attackers may share what they opened themselves, except forks of what is private.
    opened = f"owner IN ('{ours.person}', '{MOLE}', '{COLLEAGUE}') AND (private = 0 OR parent IS NULL)"
    own = (
        f"project <> '{ours.project}' AND project NOT LIKE 'race%' "
        f"AND session NOT IN (SELECT id FROM session WHERE {opened})"
    )
    statements = [
        f"SELECT s.id, s.title, s.private, s.owner, h.* FROM session s JOIN head h ON h.session = s.key "
        f"WHERE s.id IN ({sessions})",
        f"SELECT s.id, s.private, s.owner, h.state = 'erased', h.budget_tokens, h.budget_cost_micros FROM session s "
        f"JOIN head h ON h.session = s.key WHERE s.id IN ({vault})",
        f"SELECT 'grant', who, rights, project, agent, session, until FROM granted WHERE {own}",
        "SELECT 'member', team, principal FROM member",
        "SELECT 'login', name, login, disabled FROM principal WHERE (login <> '' OR disabled <> 0) "
        "AND name NOT LIKE 'person:racer%'",
        f"SELECT 'policy', policy.* FROM policy WHERE project <> '{ours.project}'",
        f"SELECT 'setting', project, name, value FROM setting WHERE project <> '{ours.project}' "
        f"AND name NOT IN ('access_baseline', 'store_id')",
        f"SELECT 'agent', agent.* FROM agent WHERE project <> '{ours.project}'",
        f"SELECT 'credential', id, principal, until, scopes, project FROM credential WHERE principal IN "
        f"('{theirs.person}', '{ROOT}', '{KEEPER}', 'person:owner')",
        f"SELECT 'job', id, kind, project FROM job WHERE project = '{theirs.project}'",
    ]
    return {repr(row) for statement in statements for row in query(store, statement)}
