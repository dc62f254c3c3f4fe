"""The witnesses of this log, and the operations on them: let them countersign, and list how far each has come.

The list of witnesses is kept in files of the home and not in the log: a person who can change the log must not be
able to remove its witnesses. A witness is a folder elsewhere, or the address of another clew; its public key is kept
with it.
"""

import os
from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from clew.model.access import Right
from clew.model.checkpoint import COSIGNATURE, Note, PublicKey, checkpoint_from, note_from, public_key
from clew.model.errors import ClewError, Conflict, Damaged, InvalidInput, NotFound, Unavailable
from clew.service.audit import signing
from clew.service.audit.checkpoints import AUDIT
from clew.service.audit.countersigning import Countersigned
from clew.service.audit.witness import Witness
from clew.service.handover.program_files import replace
from clew.service.kernel.context import Context
from clew.service.kernel.registry import operation
from clew.service.replication.remotes import key_for
from clew.service.replication.server import Server
from clew.store import Store, audit_tree
from clew.store.audit_tree import Signed

FOLDER = "witnesses"
# How many checkpoints are looked through for the last one that a witness countersigned.
MOST_CHECKPOINTS = 10_000
_PAGE = 200

Address = Annotated[
    str, msgspec.Meta(description="A folder elsewhere, or the address of another clew.", max_length=1000)
]


class WitnessSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A witness of this log: its address and its public key."""

    address: str
    key: str

    @property
    def public(self) -> PublicKey:
        return public_key(self.key, COSIGNATURE)

    @property
    def is_server(self) -> bool:
        return self.address.startswith(("http://", "https://"))


class WitnessState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a witness has come: the last checkpoint it countersigned and when, and how many came after it."""

    address: str
    key: str
    number: int
    at: int
    behind: int
    behind_since: int
    """When the first checkpoint was made that it has not countersigned; 0 when there is none."""
    problem: str = ""
    refused: bool = False
    """Whether the witness says that this log is not the one it knows."""


@operation(right=Right.ADMINISTER, audited=True, group=AUDIT)
def audit_witness_add(
    context: Context,
    address: Address,
    *,
    key: Annotated[str, msgspec.Meta(description="The public key that the witness must have.")] = "",
) -> WitnessState:
    """Let a witness countersign the checkpoints of this log from now on: a folder elsewhere, or another clew."""
    signing.need_cryptography()
    address = _checked(address)
    own = signer(context)
    if _is_server(address):
        known = _ask(context, address, own.name).witness
    else:
        witness = Witness(Path(address))
        known = str(witness.begin())
        witness.trust(own)
    if key and str(public_key(key, COSIGNATURE)) != known:
        raise Conflict(f"the witness at {address} has the key {known}, and not the one that was given")
    setting = WitnessSetting(address=address, key=known)
    before = next((known for known in all_witnesses(context.home) if known.address == address), setting)
    if before.key != setting.key:
        raise Conflict(
            f"the witness at {address} has another key than before ({before.key}); if you know why, remove the witness "
            "and add it again"
        )
    replace(_file(context.home, address), msgspec.json.format(msgspec.json.encode(setting)))
    return witness_states(context.store, [setting])[0]


@operation(right=Right.ADMINISTER, audited=True, group=AUDIT)
def audit_witness_remove(context: Context, address: Address) -> None:
    """Stop asking a witness; what it countersigned stays."""
    if not _file(context.home, address).exists():
        address = _checked(address)
    try:
        _file(context.home, address).unlink()
    except FileNotFoundError:
        names = ", ".join(setting.address for setting in all_witnesses(context.home)) or "none"
        raise NotFound(f"no witness at {address}; there are: {names}", missing="witness") from None


@operation(right=Right.AUDIT, route="GET /audit/witnesses", group=AUDIT, proves=True)
def audit_witnesses(context: Context) -> list[WitnessState]:
    """List the witnesses of this log, and how far each has come."""
    return witness_states(context.store, all_witnesses(context.home))


@operation(
    right=Right.AUDIT, route="POST /audit/witnesses", group=AUDIT, proves=True, repeatable=True,
    finds_damage=lambda states: any(state.refused for state in states),
)  # fmt: skip
def audit_witness(context: Context) -> list[WitnessState]:
    """Let every witness countersign the newest checkpoint now."""
    signing.need_cryptography()
    settings = all_witnesses(context.home)
    if not settings:
        raise NotFound("this log has no witness; add one: clew audit witness add ADDRESS", missing="witness")
    problems = {setting.address: _countersigned(context, setting) for setting in settings}
    return [
        msgspec.structs.replace(state, problem=str(error or ""), refused=isinstance(error, Damaged))
        for state in witness_states(context.store, settings)
        for error in [problems[state.address]]
    ]


def all_witnesses(home: str) -> list[WitnessSetting]:
    """The witnesses of this log, by address."""
    found = []
    for path in sorted(_folder(home).glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=WitnessSetting))
        except (OSError, msgspec.DecodeError) as error:
            raise InvalidInput(f"{path} cannot be read ({error}); remove it and add the witness again") from None
    return sorted(found, key=lambda setting: setting.address)


def witness_states(store: Store, settings: Sequence[WitnessSetting]) -> list[WitnessState]:
    """How far each witness has come, from the checkpoints alone, without a request to any witness."""
    found: dict[str, WitnessState] = {}
    since, count, before = 0, 0, MOST_CHECKPOINTS**2
    while len(found) < len(settings) and count < MOST_CHECKPOINTS:
        page = audit_tree.checkpoints(store, before=before, limit=_PAGE)
        for signed, leaf in page:
            note = note_from(signed.note)
            for setting in settings:
                at = _signed_at(note, setting.public) if setting.address not in found else None
                if at is not None:
                    found[setting.address] = _state(setting, signed.number, at, behind=count, since=since)
            since, count, before = leaf.at, count + 1, signed.number
        if len(page) < _PAGE:
            break
    return [found.get(setting.address) or _state(setting, 0, 0, behind=count, since=since) for setting in settings]


def _state(setting: WitnessSetting, number: int, at: int, *, behind: int, since: int) -> WitnessState:
    return WitnessState(
        address=setting.address, key=setting.key, number=number, at=at * 1_000_000, behind=behind, behind_since=since
    )  # fmt: skip


def _signed_at(note: Note, key: PublicKey) -> int | None:
    """When a witness countersigned; a wrong signature counts as none here, and `audit verify` reports it."""
    try:
        return signing.check_cosignature(note, key)
    except InvalidInput:
        return None


# Asking a witness -----------------------------------------------------------------------------------------------------


def newest_countersigned(context: Context, setting: WitnessSetting, origin: str) -> str:
    """The newest checkpoint of this log that a witness has countersigned; empty when it has none."""
    answer = _ask(context, setting.address, origin)
    if answer.witness != setting.key:
        raise Damaged(f"the witness at {setting.address} has the key {answer.witness} now; expected {setting.key}")
    if answer.note and signing.check_cosignature(note_from(answer.note), setting.public) is None:
        raise Damaged(f"what the witness at {setting.address} shows is not signed by its key {setting.key}")
    return answer.note


def _countersigned(context: Context, setting: WitnessSetting) -> ClewError | None:
    """Let a witness countersign the newest checkpoint; returns why it did not."""
    try:
        _countersign(context, setting)
    except ClewError as error:
        return Damaged(str(error)) if error.code == "denied" else error
    return None


def _countersign(context: Context, setting: WitnessSetting) -> None:
    origin = signer(context).name
    for attempt in range(3):
        # The witness is asked first: what it saw is then never newer than the newest checkpoint of a sound log.
        seen = newest_countersigned(context, setting, origin)
        old = checkpoint_from(note_from(seen).text).size if seen else 0
        newest = audit_tree.newest(context.store)
        if newest is None:
            raise NotFound("there is no checkpoint yet; make one: clew audit checkpoint")
        if _signed_at(note_from(newest.note), setting.public) is not None and old == newest.size:
            return
        try:
            note = _hand_in(context, setting, newest, old)
        except Conflict:
            if attempt == 2:
                raise
            continue  # Another process was first with a newer checkpoint.
        _keep(context.store, newest, setting, note)
        return


def _hand_in(context: Context, setting: WitnessSetting, newest: Signed, old: int) -> str:
    grown = 0 < old < newest.size
    proof = audit_tree.consistency(context.store, old, newest.size) if grown else []
    if not setting.is_server:
        return Witness(Path(setting.address)).countersign(newest.note, old=old, proof=proof)
    with closing(_open(context, setting.address)) as server:
        answer: Countersigned = server.call(
            "audit_countersign", checkpoint=newest.note, old=old, proof=[b64encode(hash).decode() for hash in proof]
        )
    return answer.note


def _keep(store: Store, newest: Signed, setting: WitnessSetting, written: str) -> None:
    """Add the signature of a witness to a stored checkpoint, after those of others."""
    note = note_from(written)
    if note.text != note_from(newest.note).text or signing.check_cosignature(note, setting.public) is None:
        raise Damaged(f"what the witness at {setting.address} answered is not this checkpoint with its signature")
    public = setting.public
    [line] = [line for line in note.signatures if (line.name, line.key) == (public.name, public.id)]
    audit_tree.add_signature(store, newest.number, line)


def _ask(context: Context, address: str, origin: str) -> Countersigned:
    if _is_server(address):
        with closing(_open(context, address)) as server:
            answer: Countersigned = server.call("audit_countersigned", origin=origin)
            return answer
    witness = Witness(Path(address))
    own = witness.key()  # First, because a folder that is away knows no log either.
    return Countersigned(origin=origin, note=witness.log(origin).note, witness=str(own))


def _open(context: Context, address: str) -> Server:
    if context.open_server is None:
        raise Unavailable(
            f"this process asks no other servers, so not the witness at {address}; the worker of this store does, and "
            "`clew audit witness` on the store's own machine"
        )
    return context.open_server(address, key_for(Path(context.home), address))


# Settings -------------------------------------------------------------------------------------------------------------


def signer(context: Context) -> PublicKey:
    """The key of this log, made with its first checkpoint."""
    key = signing.read_key(signing.key_file(context.home))
    if key is None:
        raise NotFound("this log has no key yet; it is made with the first checkpoint: clew audit checkpoint")
    return key.public


def _checked(address: str) -> str:
    if _is_server(address):
        return address.rstrip("/")
    if not address.strip() or "\0" in address or "://" in address:
        raise InvalidInput(f"{address[:80]!r} is no place for a witness; use a folder or the address of another clew")
    return os.path.abspath(os.path.expanduser(address))


def _is_server(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _folder(home: str) -> Path:
    return Path(home or Path.home() / ".clew") / FOLDER


def _file(home: str, address: str) -> Path:
    return _folder(home) / f"{sha256(address.encode()).hexdigest()[:16]}.json"
