"""Witnesses: a checkpoint is countersigned only if it continues what was seen; a log that was rolled back is found."""

import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from audit.history import KEY, mark
from audit.test_checkpoints import bundled
from clew import app, doctor
from clew.consumers.witnesses import Witnesses
from clew.model.access import ROLES, Grant, owner_of_everything
from clew.model.checkpoint import COSIGNATURE, note_from, public_key
from clew.model.cosignature import cosigned_text, time_and_signature
from clew.model.errors import ClewError, Conflict, Damaged, Denied, InvalidInput, NotFound, Unavailable
from clew.remote import Remote
from clew.service import Context, call
from clew.service.audit import verify_bundle
from clew.service.audit.signing import SigningKey, check_cosignature, key_file, new_key, write_key
from clew.service.audit.witness import KEY as WITNESS_KEY
from clew.service.audit.witness import Witness
from clew.service.audit.witnesses import WitnessState
from clew.store import Store, audit_tree, open_store
from clew.store.audit_tree import Signed
from server.running import Running
from store.crowd import at_once
from store.rows import change, query
from store.words import ADA, opened

# For what no database has a say in.
embedded = pytest.mark.parametrize("database", ["sqlite"])

# The example of c2sp.org/tlog-cosignature.
EXAMPLE = """\
example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/\
Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/\
zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLEW_AUDIT_KEY", "CLEW_WITNESS", "CLEW_KEY"):
        monkeypatch.delenv(name, raising=False)


def context_on(store: Store, home: Path) -> Context:
    if not key_file(str(home)).exists():
        write_key(key_file(str(home)), KEY)
    return Context(
        store=store, unrestricted=store, principal=ADA, grants=(owner_of_everything(ADA),), home=str(home),
        open_server=app.open_server,
    )  # fmt: skip


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Context:
    return context_on(store, tmp_path / "home")


@pytest.fixture
def usb(tmp_path: Path) -> Path:
    return tmp_path / "usb"


def grow(context: Context) -> Signed:
    opened(context.store)
    made = mark(context.store)
    assert made is not None
    return made


def countersign(context: Context) -> WitnessState:
    [state] = call(context, "audit_witness", {})
    assert isinstance(state, WitnessState)
    return state


def handed_in(witness: Witness, store: Store, signed: Signed, old: int) -> str:
    proof = audit_tree.consistency(store, old, signed.size) if 0 < old < signed.size else []
    return witness.countersign(signed.note, old=old, proof=proof)


# The form ---------------------------------------------------------------------------------------------------------


def test_a_signature_of_a_witness_is_read_as_c2sp_says() -> None:
    at, signature = time_and_signature(note_from(EXAMPLE).signatures[1])
    assert (at, len(signature)) == (1679315147, 64)
    text = note_from(EXAMPLE).text
    assert cosigned_text(text, at) == b"cosignature/v1\ntime 1679315147\n" + text.encode()


def test_a_witness_signs_the_time_with_the_text_and_its_key_is_no_key_of_a_log() -> None:
    witness = SigningKey("witness.example/w1", bytes(32), COSIGNATURE)
    note = note_from(KEY.sign("clew/test\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"))
    line = witness.cosign(note.text, seconds=77)
    signed = msgspec.structs.replace(note, signatures=(*note.signatures, line))
    assert check_cosignature(signed, witness.public) == 77
    assert check_cosignature(note, witness.public) is None
    for changed in (b"\0" * 7 + b"\x4e" + line.signature[8:], line.signature[:-1] + b"\0"):
        forged = msgspec.structs.replace(note, signatures=(msgspec.structs.replace(line, signature=changed),))
        with pytest.raises(InvalidInput, match="is wrong"):
            check_cosignature(forged, witness.public)
    with pytest.raises(InvalidInput, match="expected that of a log"):
        public_key(str(witness.public))
    with pytest.raises(InvalidInput, match="expected that of a witness"):
        public_key(KEY.key, COSIGNATURE)


# Countersigning ---------------------------------------------------------------------------------------------------


def test_a_folder_countersigns_what_grows_and_verification_says_so(context: Context, usb: Path) -> None:
    grow(context)
    added = call(context, "audit_witness_add", {"address": str(usb)})
    assert (added.number, added.behind) == (0, 1)
    for number in (1, 2, 3):
        assert countersign(context).behind == 0
        [state] = call(context, "audit_witnesses", {})
        assert (state.number, state.behind, state.problem) == (number, 0, "")
        grow(context)
    [state] = call(context, "audit_witnesses", {})
    assert (state.number, state.behind) == (3, 1)
    found = call(context, "audit_verify", {})
    assert (found.problems, found.checkpoints, found.countersigned, found.kept, found.notes) == ([], 4, 3, 1, [])
    # A bundle shows it to somebody who has the witness' key alone.
    shown = verify_bundle.examine(bundled(context.store), [KEY.public], [], [public_key(added.key, COSIGNATURE)])
    assert (shown.problems, shown.countersigned) == ([], 3)
    other = verify_bundle.examine(bundled(context.store), [KEY.public], [], [new_key("w", COSIGNATURE).public])
    assert other.notes[0] == "the witness w countersigned none of these checkpoints"


def test_two_witnesses_sign_the_same_checkpoint(context: Context, tmp_path: Path) -> None:
    signed = grow(context)
    for name in ("one", "two"):
        call(context, "audit_witness_add", {"address": str(tmp_path / name)})
    call(context, "audit_witness", {})
    newest = audit_tree.newest(context.store)
    assert newest is not None
    assert len(note_from(newest.note).signatures) == 3
    assert note_from(newest.note).text == note_from(signed.note).text
    assert call(context, "audit_verify", {}).countersigned == 1


def test_a_signature_of_a_witness_that_was_changed_is_found(context: Context, usb: Path) -> None:
    grow(context)
    call(context, "audit_witness_add", {"address": str(usb)})
    countersign(context)
    [[note]] = query(context.store, "SELECT note FROM checkpoint")
    line = str(note).splitlines()[-1]
    changed = f"{line[:-12]}{'A' * 8 if line[-12:-4] != 'A' * 8 else 'B' * 8}{line[-4:]}"
    change(context.store, f"UPDATE checkpoint SET note = replace(note, '{line}', '{changed}')")
    [problem] = call(context, "audit_verify", {}).problems
    assert (problem.where, "the signature of the witness" in problem.what) == ("checkpoint 1", True)


def test_a_log_that_was_written_again_is_refused_and_found(tmp_path: Path, usb: Path) -> None:
    """Another history signed with the log's own key: at no size does it pass for the first one."""
    with open_store(f"sqlite:///{tmp_path / 'a.db'}") as first, open_store(f"sqlite:///{tmp_path / 'b.db'}") as second:
        one, other = (context_on(store, tmp_path / "home") for store in (first, second))
        grow(one)
        call(one, "audit_witness_add", {"address": str(usb)})
        for _ in range(2):
            grow(one)
            assert not countersign(one).problem
        for covered in (*["rolled back"] * 3, *["does not continue"] * 2):
            grow(other)
            state = countersign(other)
            assert state.refused
            assert covered in state.problem
            places = {problem.where for problem in call(other, "audit_verify", {}).problems}
            assert places == {f"witness {usb}"}
        # What the witness knows is still the first.
        grow(one)
        assert not countersign(one).problem


def test_of_two_histories_that_come_at_once_one_is_countersigned(tmp_path: Path, usb: Path) -> None:
    witness = Witness(usb)
    witness.begin()
    witness.trust(KEY.public)
    results = []
    with open_store(f"sqlite:///{tmp_path / 'a.db'}") as first, open_store(f"sqlite:///{tmp_path / 'b.db'}") as second:
        signed = []
        for store in (first, second) * 4:
            opened(store)
            signed.append((store, mark(store)))

        def hand_in(number: int) -> None:
            store, made = signed[number]
            assert made is not None
            try:
                results.append((number % 2, handed_in(witness, store, made, 0)))
            except ClewError as error:
                results.append((number % 2, error.code))

        at_once([lambda number=number: hand_in(number) for number in range(8)])
    assert len({side for side, result in results if result.startswith("clew/")}) == 1
    assert {result for _, result in results if not result.startswith("clew/")} <= {"conflict", "denied"}


def test_only_the_logs_own_key_is_countersigned(store: Store, usb: Path) -> None:
    witness = Witness(usb)
    with pytest.raises(Unavailable, match="cannot be reached"):
        witness.countersign(KEY.sign("clew/test\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"), old=0, proof=[])
    witness.begin()
    opened(store)
    made = mark(store)
    assert made is not None
    with pytest.raises(NotFound, match="does not follow that log"):
        handed_in(witness, store, made, 0)
    witness.trust(KEY.public)
    forger = new_key(KEY.public.name)
    with pytest.raises(Denied, match="not one of the given keys"):
        witness.countersign(forger.sign(note_from(made.note).text), old=0, proof=[])
    with pytest.raises(Conflict, match="covers 0 leaves"):
        witness.countersign(made.note, old=made.size, proof=[])
    # Lines of others are not kept, so nobody fills the file of the witness.
    both = made.note + forger.sign("x\n").partition("\n\n")[2]
    assert len(note_from(witness.countersign(both, old=0, proof=[])).signatures) == 2
    # A new key of the same log is trusted beside the old one.
    witness.trust(forger.public)
    assert len(witness.log("clew/test").keys) == 2


@embedded
def test_a_witness_that_is_away_or_another_is_said(context: Context, usb: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no witness"):
        call(context, "audit_witness", {})
    grow(context)
    with pytest.raises(InvalidInput, match="no place for a witness"):
        call(context, "audit_witness_add", {"address": "ftp://there"})
    with pytest.raises(Conflict, match="not the one that was given"):
        call(context, "audit_witness_add", {"address": str(usb), "key": str(new_key("w", COSIGNATURE).public)})
    assert call(context, "audit_witnesses", {}) == []
    call(context, "audit_witness_add", {"address": str(usb)})
    countersign(context)
    grow(context)
    usb.rename(tmp_path / "away")
    state = countersign(context)
    assert (state.refused, state.behind) == (False, 1)
    assert "there is no witness" in state.problem
    assert not usb.exists()
    found = call(context, "audit_verify", {})
    assert found.problems == []
    assert any("was not compared with" in note for note in found.notes)
    # Another witness in its place is not taken for it.
    other = Witness(usb)
    other.begin()
    other.trust(KEY.public)
    assert "expected clew-witness/" in countersign(context).problem
    with pytest.raises(Conflict, match="another key than before"):
        call(context, "audit_witness_add", {"address": str(usb)})
    assert {problem.where for problem in call(context, "audit_verify", {}).problems} == {f"witness {usb}"}
    call(context, "audit_witness_remove", {"address": str(usb)})
    assert call(context, "audit_witnesses", {}) == []
    with pytest.raises(NotFound, match="there are: none"):
        call(context, "audit_witness_remove", {"address": str(usb)})
    (usb / WITNESS_KEY).chmod(0o644)
    with pytest.raises(Unavailable, match="other users can read it"):
        call(context, "audit_witness_add", {"address": str(usb)})


# Another clew -----------------------------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Running]:
    with Running(f"sqlite:///{tmp_path / 'second' / 'clew.db'}", str(tmp_path / "second")) as running:
        yield running


def test_another_clew_is_a_witness(
    context: Context, second: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grow(context)
    # A principal without any grant: all that counts is the signature of the log.
    monkeypatch.setenv("CLEW_KEY", second.key("service:log"))
    with pytest.raises(NotFound, match="does not follow that log"):
        call(context, "audit_witness_add", {"address": second.address})
    with pytest.raises(ClewError, match="refused"), second_remote(second, second.key("service:log")) as remote:
        remote.call("audit_trust", key=KEY.key)
    trusted = call(second.owner, "audit_trust", {"key": KEY.key})
    added = call(context, "audit_witness_add", {"address": f"{second.address}/", "key": trusted.witness})
    assert (added.address, added.key) == (second.address, trusted.witness)
    for number in (1, 2):
        assert countersign(context).number == number
        found = call(context, "audit_verify", {})
        assert (found.problems, found.kept, found.countersigned) == ([], 1, number)
        grow(context)
    with open_store(f"sqlite:///{tmp_path / 'b.db'}") as other_store:
        other = context_on(other_store, tmp_path / "home")
        grow(other)
        state = countersign(other)
        assert state.refused
        assert "rolled back" in state.problem
    # The other clew has the refusal in its own log.
    entries = call(second.owner, "audit_log", {"operation": "audit_countersign"}).entries
    assert [entry.allowed for entry in entries] == [False]
    address = second.address
    second.stop()
    [state] = call(quick(context), "audit_witness", {})
    assert "cannot reach the clew server" in state.problem
    assert any(address in note for note in call(quick(context), "audit_verify", {}).notes)
    second.start()


def quick(context: Context) -> Context:
    return msgspec.structs.replace(context, open_server=lambda url, key, **_: app.open_server(url, key, patience=0.1))


def second_remote(second: Running, key: str) -> "closing[Remote]":
    return closing(app.open_server(second.address, key))


def test_a_server_asks_no_witness_at_an_address_for_its_callers(
    second: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address is asked by the worker alone, so that no request makes a server connect anywhere."""
    home = tmp_path / "second"
    write_key(key_file(str(home)), KEY)
    monkeypatch.setenv("CLEW_KEY", second.key())
    context = msgspec.structs.replace(second.owner, open_server=app.open_server)
    opened(context.store)
    mark(context.store)
    call(context, "audit_trust", {"key": KEY.key})
    call(context, "audit_witness_add", {"address": second.address})
    with second.client(second.key()) as client:
        [state] = client.post("/v1/audit/witnesses", json={}).json()
        assert "this process asks no other servers" in state["problem"]
        for route in ("POST", "PUT", "DELETE"):
            assert client.request(route, "/v1/audit/witness", json={"address": "http://10.0.0.1"}).status_code == 404


def test_a_hostile_checkpoint_is_refused_as_input(second: Running) -> None:
    call(second.owner, "audit_trust", {"key": KEY.key})
    good = KEY.sign("clew/test\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
    with second.client(second.key("service:log")) as client:
        for body in (
            {"checkpoint": ""}, {"checkpoint": "x" * 100_000}, {"checkpoint": good, "old": -1},
            {"checkpoint": good, "proof": ["!"]}, {"checkpoint": good, "proof": ["AA=="] * 64},
            {"checkpoint": good, "proof": ["A" * 65]}, {"checkpoint": good.replace("\n1\n", "\n01\n")},
        ):  # fmt: skip
            assert client.post("/v1/audit/countersigned", json=body).status_code == 400, body
        strange = {"checkpoint": good.replace("clew/test", "clew/../../x")}
        assert client.post("/v1/audit/countersigned", json=strange).status_code == 404
        first = client.post("/v1/audit/countersigned", json={"checkpoint": good})
        assert first.status_code == 200
        again = KEY.sign("clew/test\n2\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n")
        hashes = [b64encode(bytes(32)).decode()]
        for old, proof, status in ((0, [], 409), (1, [], 403), (1, hashes, 403), (1, ["AA=="], 403)):
            body = {"checkpoint": again, "old": old, "proof": proof}
            assert client.post("/v1/audit/countersigned", json=body).status_code == status
        narrow = Grant(principal="service:narrow", rights=ROLES["viewer"], project="shop")
        with second.client(second.key("service:narrow", narrow)) as other:
            assert other.get("/v1/audit/countersigned", params={"origin": "clew/unknown"}).status_code == 404
            assert other.put("/v1/audit/countersigned", json={"key": KEY.key}).status_code == 403
            assert other.get("/v1/audit/witnesses").status_code == 403


# By itself --------------------------------------------------------------------------------------------------------


def test_the_worker_lets_witnesses_countersign_and_tries_again(context: Context, usb: Path, tmp_path: Path) -> None:
    consumer, stopping = Witnesses(context), threading.Event()
    assert consumer.run(stopping) is None
    grow(context)
    call(context, "audit_witness_add", {"address": str(usb)})
    assert consumer.run(stopping) is None
    assert call(context, "audit_witnesses", {})[0].behind == 0
    grow(context)
    usb.rename(tmp_path / "away")
    with pytest.raises(ClewError, match="there is no witness"):
        consumer.run(stopping)
    (tmp_path / "away").rename(usb)
    seconds = consumer.run(stopping)
    assert seconds is not None
    assert 0 < seconds <= 5
    consumer._retry_at = 0.0
    assert consumer.run(stopping) is None
    assert call(context, "audit_witnesses", {})[0].behind == 0


def test_doctor_says_when_a_witness_is_behind(tmp_path: Path, usb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    chosen = app.settings(store=f"sqlite:///{home / 'clew.db'}", home=home, principal=ADA)
    with open_store(chosen.store) as store:
        context = context_on(store, home)
        grow(context)
        call(context, "audit_witness_add", {"address": str(usb)})
        countersign(context)
        assert [(finding.ok, finding.found) for finding in witness_findings(chosen)] == [
            (True, f"{usb} has countersigned the newest checkpoint")
        ]
        grow(context)
        assert [finding.ok for finding in witness_findings(chosen)] == [True]
        monkeypatch.setattr(doctor, "LATE_WITNESS_US", 0)
        [late] = witness_findings(chosen)
        assert (late.ok, late.found) == (False, f"{usb} has not countersigned the last 1 checkpoints")


def witness_findings(chosen: app.Settings) -> list[doctor.Finding]:
    return [finding for finding in doctor.diagnose(chosen) if finding.what == "witness"]


def test_a_damaged_file_of_a_witness_is_said(usb: Path) -> None:
    witness = Witness(usb)
    witness.begin()
    witness.trust(KEY.public)
    [path] = (usb / "logs").iterdir()
    assert (path.stat().st_mode & 0o777, usb.stat().st_mode & 0o777) == (0o600, 0o700)
    text = path.read_text()
    path.write_text(text.replace("clew/test", "clew/other"))
    with pytest.raises(Damaged, match="another log"):
        witness.log("clew/test")
    path.write_text(text[:20])
    with pytest.raises(Damaged, match="restore it"):
        witness.log("clew/test")
