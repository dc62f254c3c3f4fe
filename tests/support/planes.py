"""Planes on a store of one's own choice."""

from clew.client import Plane
from clew.local import Local
from clew.model.access import owner_of_everything
from clew.service import Context
from clew.store import open_store

ME = "person:ada"


def plane_on(url: str) -> Plane:
    store = open_store(url)
    grants = (owner_of_everything(ME),)
    return Plane(Local(Context(store=store, unrestricted=store, principal=ME, grants=grants, machine="here")))
