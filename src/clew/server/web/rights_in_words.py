"""Rights as people name them: a role where they are those of one."""

from collections.abc import Iterable

from clew.model.access import ROLES


def rights_in_words(rights: Iterable[str]) -> str:
    """The name of the role with these rights, or the rights."""
    given = frozenset(map(str, rights))
    roles = (role for role, of_role in ROLES.items() if frozenset(map(str, of_role)) == given)
    return next(roles, ", ".join(sorted(given)))
