"""Everything that can happen to objects, once: put, pack, name, let go, collect. It says what it did as it does it."""

import random
from collections.abc import Callable

from clew.model.events import ArtifactSaved, Draft, MessageAdded
from clew.model.session import Session
from clew.store import Store
from clew.store.log.erase import erase
from clew.store.log.opening import Opening
from clew.store.objects import objects
from clew.store.objects.collection import collect
from support.object_promises import ADA, content

Say = Callable[..., None]


def tell(store: Store, seed: str, say: Say) -> None:
    """Two sessions that share objects; the first is erased, so that packs are written anew, and others are removed."""
    chance = random.Random(seed)
    first, second = (store.open(Opening(project="p", title="t"), actor=ADA) for _ in range(2))

    def put(number: int, size: int) -> str:
        label = f"{seed}/{number}"
        name = objects.put(store, iter([content(label, size)]))
        say("object", name, label, size)
        return name

    def name(session: Session, *names: str) -> None:
        drafts = [Draft(body=ArtifactSaved(name="a", blob=each, size=1)) for each in names]
        store.append(session, drafts, actor=ADA)
        for each in names:
            say("named", session.id, each)

    sizes = [chance.randrange(1, 90_000) for _ in range(6)]
    labels = [f"{seed}/many{number}" for number in range(6)]
    many = list(objects.put_many(store, [content(label, size) for label, size in zip(labels, sizes, strict=True)]))
    for each, label, size in zip(many, labels, sizes, strict=True):
        say("object", each, label, size)
    large = put(0, chance.choice([1_300_000, 1_300_000, 9_000_000]))
    name(first, many[0], many[1], large)
    name(second, many[1], many[2])
    listing = objects.put(store, ["\n".join(many[3:5]).encode()], names=many[3:5])
    name(second, listing)
    put(1, 150_000)  # Nothing will ever name it.
    for session in (first, second):
        text = content(f"{seed}/{session.id}", 70_000).hex()
        store.append(session, [Draft(body=MessageAdded(role="user", text=text))], actor=ADA)
    collect(store, grace_us=0)  # Of the six that share a pack the last one goes.
    say("forgetting", first.id)
    erase(store, first, actor=ADA, overwrite=False)
    say("forgot", first.id)
    put(2, 150_000)
    collect(store, grace_us=0)
    if chance.random() < 0.5:
        say("forgetting", second.id)
        erase(store, second, actor=ADA, overwrite=False)
        say("forgot", second.id)
