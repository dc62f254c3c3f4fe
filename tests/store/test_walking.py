"""Walking what objects name: each once, and what is named before what names it."""

import pytest

from clew.model.errors import NotFound
from clew.store import Store
from clew.store.objects import objects
from clew.store.objects.pack import address
from clew.store.objects.walking import walk


def test_what_an_object_names_comes_before_it_and_each_comes_once(store: Store) -> None:
    leaf, other = objects.save(store, b"a file"), objects.save(store, b"another")
    shared = objects.put(store, [b"shared folder"], names=[leaf])
    # The shared folder is beside the folder that names it, too: it must still come first.
    inner = objects.put(store, [b"inner"], names=[shared, other])
    root = objects.put(store, [b"root"], names=[inner, shared, leaf])
    seen: set[bytes] = set()
    walked = list(walk(store, [bytes.fromhex(root)], seen=seen))
    order = [found.digest.hex() for found in walked]
    assert sorted(order) == sorted([leaf, other, shared, inner, root])
    for found in walked:
        assert all(order.index(name.hex()) < order.index(found.digest.hex()) for name in found.names)
    assert [found.size for found in walked if found.digest.hex() == root] == [4]
    assert list(walk(store, [bytes.fromhex(inner)], seen=seen)) == []
    with pytest.raises(NotFound, match="no blob"):
        list(walk(store, [address(b"nowhere")], seen=seen))
