"""A witness: a folder with a key and, for each log, the newest checkpoint that it countersigned.

It countersigns a checkpoint only if the log's own key signed it and it continues the one before. A log that was rolled
back or rewritten is refused for every caller. The folder is worth as much as it is apart from the log: in the home of
another clew, or on a disk that the log's machine alone does not decide about.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from clew.model.checkpoint import COSIGNATURE, Checkpoint, Note, PublicKey, checkpoint_from, note_from, public_key
from clew.model.errors import Conflict, Damaged, Denied, InvalidInput, NotFound, Unavailable
from clew.model.ids import new_id
from clew.model.merkle import is_consistent
from clew.service.audit import signing
from clew.service.audit.signing import SigningKey
from clew.service.handover.program_files import replace
from clew.store.durable_folders import create_private, make_private

FOLDER, KEY, LOGS = "witness", "witness.key", "logs"
VARIABLE = "CLEW_WITNESS"


class WitnessedLog(msgspec.Struct, kw_only=True):
    """A log that the witness follows: the keys that may sign its checkpoints, and the newest it countersigned."""

    origin: str
    keys: list[str]
    note: str = ""


class Witness:
    """The witness in a folder. Processes that share the folder share its lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self) -> PublicKey:
        """Make the folder and its key, if they are missing; returns the public key."""
        signing.need_cryptography()
        _private(self.folder)
        with self._locked():
            path = self.folder / KEY
            if signing.read_key(path, COSIGNATURE) is None:
                signing.write_key(path, signing.new_key(f"clew-witness/{new_id()}", COSIGNATURE))
            return self._key().public

    def key(self) -> PublicKey:
        """The public key of the witness."""
        return self._key().public

    def trust(self, key: PublicKey) -> None:
        """Follow the log whose checkpoints this key signs; a log may have several keys, one after the other."""
        with self._locked():
            known = self._read(key.name) or WitnessedLog(origin=key.name, keys=[])
            if str(key) not in known.keys:
                known.keys.append(str(key))
                self._write(known)

    def log(self, origin: str) -> WitnessedLog:
        """What the witness knows of a log."""
        known = self._read(origin)
        if known is None:
            raise NotFound(
                "this witness does not follow that log; trust its key here first: clew audit witness trust KEY",
                missing="log",
            )
        return known

    def countersign(self, written: str, *, old: int, proof: Sequence[bytes]) -> str:
        """Countersign a checkpoint that continues the newest one, which has `old` leaves; returns it with its lines."""
        note = note_from(written)
        head = checkpoint_from(note.text)
        with self._locked():
            known = self.log(head.origin)
            keys = [public_key(text) for text in known.keys]
            try:
                signing.check(written, keys)
            except InvalidInput as error:
                raise Denied(f"the witness refuses this checkpoint: {error}") from error
            _check_continues(_head_of(known), head, old=old, proof=proof)
            own = {(key.name, key.id) for key in keys}
            by_log = tuple(line for line in note.signatures if (line.name, line.key) in own)
            known.note = str(Note(note.text, (*by_log, self._key().cosign(note.text, seconds=int(time.time())))))
            self._write(known)
            return known.note

    # Files ------------------------------------------------------------------------------------------------------------

    def _key(self) -> SigningKey:
        key = signing.read_key(self.folder / KEY, COSIGNATURE)
        if key is None:
            raise Unavailable(f"there is no witness in {self.folder}: {KEY} is missing")
        return key

    def _path(self, origin: str) -> Path:
        return self.folder / LOGS / f"{sha256(origin.encode()).hexdigest()[:32]}.json"

    def _read(self, origin: str) -> WitnessedLog | None:
        path = self._path(origin)
        try:
            known = msgspec.json.decode(path.read_bytes(), type=WitnessedLog)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"cannot read {path}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise Damaged(f"{path} is damaged ({error}); restore it from a backup") from error
        if known.origin != origin:
            raise Damaged(f"{path} is about another log than its name says; restore it from a backup")
        return known

    def _write(self, known: WitnessedLog) -> None:
        replace(self._path(known.origin), msgspec.json.format(msgspec.json.encode(known)))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        try:
            lock = open(self.folder / "lock", "a", opener=create_private)  # noqa: SIM115  # Closed below.
        except OSError as error:
            raise Unavailable(f"the witness in {self.folder} cannot be reached: {error.strerror}") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def own_witness(home: str) -> Witness:
    """The witness that this clew is for other logs."""
    return Witness(Path(os.environ.get(VARIABLE) or Path(home or Path.home() / ".clew") / FOLDER).expanduser())


def _private(folder: Path) -> None:
    try:
        make_private(folder)
    except OSError as error:
        raise Unavailable(f"cannot make the folder {folder}: {error.strerror}") from error


def _head_of(known: WitnessedLog) -> Checkpoint | None:
    return checkpoint_from(note_from(known.note).text) if known.note else None


def _check_continues(seen: Checkpoint | None, head: Checkpoint, *, old: int, proof: Sequence[bytes]) -> None:
    """Refuse a checkpoint that does not continue the newest one that was countersigned."""
    size = seen.size if seen else 0
    if head.size < size:
        raise Denied(
            f"the witness refuses this checkpoint: it covers {head.size} leaves, and the witness countersigned {size} "
            "of this log before: the log was rolled back, or an older copy was restored"
        )
    if old != size:
        raise Conflict(f"the newest checkpoint here covers {size} leaves, and the proof is from {old}", size=size)
    if seen is not None and not is_consistent(size, head.size, seen.root, head.root, proof):
        raise Denied(
            f"the witness refuses this checkpoint: it does not continue the {size} leaves that the witness "
            "countersigned before: the log was rewritten, or this is another history of it"
        )
