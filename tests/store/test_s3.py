"""S3-compatible storage that is away: what needs no object works, nothing is lost, and all works when it is back."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clew.model.errors import Unavailable
from clew.model.events import ArtifactSaved, Draft
from clew.store import Store, open_store
from clew.store.objects import objects
from clew.store.objects.collection import collect
from store.words import big, bulk, messages, opened, say
from support.s3 import S3
from sync.lossy import Lossy


@pytest.fixture
def line(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lossy]:
    """The line to the S3 server, on which every answer can get lost."""
    with Lossy(s3.url) as line:
        monkeypatch.setenv("AWS_ENDPOINT_URL", line.address)
        yield line


@pytest.fixture
def store(s3: S3, line: Lossy, tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/clew.db", objects=s3.new_bucket()) as store:
        yield store


def test_while_it_is_away_nothing_is_acknowledged_that_needs_it_and_nothing_is_lost(store: Store, line: Lossy) -> None:
    session = opened(store)
    kept, _ = (objects.put(store, [bulk(text)]) for text in ("kept", "never named"))
    store.append(session, [Draft(body=ArtifactSaved(name="a", blob=kept, size=1))])
    line.drops = 10**9
    with pytest.raises(Unavailable) as refusal:
        objects.load(store, kept)
    assert urlsplit(line.address).netloc not in str(refusal.value), "where it is asked for is no business of a caller's"
    with pytest.raises(Unavailable):
        store.append(session, [say(big())])
    with pytest.raises(Unavailable):
        collect(store, grace_us=0)
    store.append(session, [say("a line needs no object")])
    line.drops = 0
    assert messages(list(store.read(session))) == ["a line needs no object"]
    store.append(session, [say(big())])
    collect(store, grace_us=0)
    assert messages(list(store.read(session))) == ["a line needs no object", big()]
    assert objects.load(store, kept) == bulk("kept")
    # One pack for what is named and one for the body: what nothing names is gone, with what was left half-written.
    assert len(list(store.pack_stores.current.list(""))) == 2
