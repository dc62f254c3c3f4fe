"""The two roles of a PostgreSQL database, and whether row-level security holds for one.

The owner makes and changes tables, policies and functions. The runtime role reads and writes rows, and nothing else: it
owns nothing, is a member of no role that does, and so cannot switch row-level security off. One role can be both: the
policies are forced on the owner, too, but the owner could drop them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from clew.model.errors import Conflict, InvalidInput, SchemaOutdated, StoreError
from clew.store.database.contract import RowSecurity, RuntimeRole
from clew.store.database.statements import schema_text, tables

# Tables without rows of a tenant: positions, and versions of views.
WITHOUT_TENANTS = frozenset({"clock", "view"})
# Not forced on its owner, whose functions search the index of words; under a policy no search can use it (text.sql).
READ_BY_OWNER = frozenset({"passage"})

POLICY = "wall"

_ROLE = """
SELECT r.rolname, r.rolsuper, r.rolbypassrls, r.rolcreaterole, pg_get_userbyid(c.relowner) AS owner,
    pg_has_role(r.oid, c.relowner, 'MEMBER') AS is_member, pg_has_role(r.oid, d.datdba, 'MEMBER') AS owns_database,
    pg_has_role(r.oid, n.nspowner, 'MEMBER') AS owns_schema, n.nspname, d.datname
FROM pg_roles r, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_database d
WHERE r.rolname = coalesce(%s, current_user) AND c.oid = to_regclass('event') AND d.datname = current_database()
"""
_UNPROTECTED = """
SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
    ARRAY(SELECT CAST(polname AS TEXT) FROM pg_policy WHERE polrelid = c.oid ORDER BY polname),
    CAST(pg_get_userbyid(c.relowner) AS TEXT)
FROM pg_class c WHERE c.oid IN (SELECT to_regclass(name) FROM unnest(CAST(%s AS TEXT[])) AS name) ORDER BY c.relname
"""
_LACKING = """
SELECT c.relname FROM pg_class c
WHERE c.oid IN (SELECT to_regclass(name) FROM unnest(CAST(%s AS TEXT[])) AS name)
    AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
ORDER BY c.relname
"""


_OTHERS = """
SELECT c.relname FROM pg_class c
WHERE c.oid IN (SELECT to_regclass(name) FROM unnest(CAST(%s AS TEXT[])) AS name) AND NOT (MAY) ORDER BY c.relname
"""


class _Table(NamedTuple):
    """What the catalogue says about the row-level security of a table."""

    name: str
    is_enabled: bool
    is_forced: bool
    policies: list[str]
    owner: str


class _Role(NamedTuple):
    """What a role is, beside the owner of the tables."""

    name: str
    is_superuser: bool
    bypasses: bool
    creates_roles: bool
    owner: str
    is_member: bool
    owns_database: bool
    owns_schema: bool
    schema: str
    database: str

    @property
    def is_owner(self) -> bool:
        return self.name == self.owner


def row_security(connection: psycopg.Connection, package: str) -> RowSecurity:
    """Whether row-level security of a package's tables holds for the role of this connection."""
    role = _role(connection, None)
    if role is None:
        return RowSecurity(role="", owner="")  # There are no tables yet.
    problem, remedy = _power(role)
    if not problem:
        problem, remedy = _unprotected(connection, package, role.owner)
    if problem:
        return RowSecurity(role=role.name, owner=role.owner, problem=problem, remedy=remedy)
    lacking = [str(row[0]) for row in connection.execute(_LACKING, [tables(package, "pg")]).fetchall()]
    return RowSecurity(role=role.name, owner=role.owner, lacks_rights_on=lacking)


def set_up_runtime_role(
    connection: psycopg.Connection, name: str, package: str, version_table: str, *, password: str = ""
) -> RuntimeRole:
    """Make the runtime role unless it exists, and give it what it needs on a package's tables. Safe to repeat."""
    owner = _role(connection, None)
    if owner is None or not (owner.is_owner or owner.is_superuser):
        who = f"the role {owner.name} does not own the tables; {owner.owner} does" if owner else "there are no tables"
        raise Conflict(f"{who}: a runtime role is set up by the role that owns them")
    _check_name(name, owner.owner)
    is_new = _role(connection, name) is None
    if is_new:
        _create(connection, name, owner.name)
    role = _role(connection, name)
    if role is None:
        raise StoreError(f"the role {name} was dropped meanwhile; try again")
    problem, remedy = _power(role)
    if problem:
        raise Conflict(f"{problem}, so it cannot be the runtime role; {remedy or 'name another one'}")
    if password:
        # Hashed here, so that the password is in no statement and in no log of the server.
        hashed = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        _run(connection, "ALTER ROLE {role} PASSWORD {hashed}", role=role, hashed=sql.Literal(hashed))
    _grant(connection, role, package, version_table)
    return RuntimeRole(name=name, is_new=is_new, owner=role.owner)


def refuse_unless_owner(connection: psycopg.Connection, version: int) -> None:
    """Refuse a change of the schema by a role that does not own the log: it would own what it makes."""
    role = _role(connection, None)
    if role is not None and not role.is_member:
        raise SchemaOutdated(
            f"the tables must be brought to schema {version} by the role {role.owner}, which owns them; {role.name} "
            "may only use them: migrate them once as that role",
            expected=version,
        )


def lacks_rights(place: str, said: str) -> StoreError:
    """The error about a statement that the role may not run."""
    return StoreError(
        f"the role that connects to {place} may not do this ({said}); the role that owns the tables can give it the "
        "rights",
        lacks_rights=True,
    )


def tables_it_cannot_rewrite(connection: psycopg.Connection, package: str) -> list[str]:
    """The tables whose free space the role of this connection may not give back."""
    may = "pg_has_role(c.relowner, 'USAGE')"
    if connection.info.server_version >= 170000:
        may += " OR has_table_privilege(c.oid, 'MAINTAIN')"
    statement = _OTHERS.replace("MAY", may)
    return [str(row[0]) for row in connection.execute(statement.encode(), [tables(package, "pg")]).fetchall()]


def _role(connection: psycopg.Connection, name: str | None) -> _Role | None:
    """The role with this name, or that of the connection, beside the owner of the log; None if either is missing."""
    row = connection.execute(_ROLE, [name]).fetchone()
    return _Role(*row) if row else None


def _power(role: _Role) -> tuple[str, str]:
    """What lets a role read past row-level security, and what takes that power away."""
    name = role.name
    if role.is_superuser or role.bypasses:
        power = "is a superuser" if role.is_superuser else "has BYPASSRLS"
        return f"the role {name} bypasses row-level security (it {power})", ""
    if role.is_owner:
        return "", ""
    if role.is_member:
        return (
            f"the role {name} is a member of {role.owner}, which owns the tables",
            f"REVOKE {_quoted(role.owner)} FROM {_quoted(name)}",
        )
    if role.owns_database or role.owns_schema:
        what = f"the database {role.database}" if role.owns_database else f"the schema {role.schema}"
        kind = what.split()[1].upper()
        thing = role.database if role.owns_database else role.schema
        return f"the role {name} owns {what}", f"ALTER {kind} {_quoted(thing)} OWNER TO {_quoted(role.owner)}"
    if role.creates_roles:
        return f"the role {name} may create roles and change others", f"ALTER ROLE {_quoted(name)} NOCREATEROLE"
    return "", ""


def _unprotected(connection: psycopg.Connection, package: str, owner: str) -> tuple[str, str]:
    """Tables whose rows row-level security does not hide or that another role owns, and the SQL that protects them."""
    off, foreign, remedies = [], [], []
    for row in connection.execute(_UNPROTECTED, [tables(package, "pg")]).fetchall():
        table = _Table(*row)
        if table.owner != owner:
            foreign.append(f"{table.name} belongs to {table.owner}")
            remedies.append(f"ALTER TABLE {table.name} OWNER TO {_quoted(owner)}")
        if needed := _needed_by(table, package):
            off.append(table.name)
            remedies += needed
    problems = [f"row-level security is switched off on {', '.join(off)}"] if off else []
    problems += [f"{', '.join(foreign)}, and not to {owner}"] if foreign else []
    return "; ".join(problems), "; ".join(remedies)


def _needed_by(table: _Table, package: str) -> list[str]:
    """The statements that a table needs for row-level security to hide its rows; none when it does."""
    if table.name in WITHOUT_TENANTS:
        return []
    force = "" if table.name in READ_BY_OWNER else ", FORCE ROW LEVEL SECURITY"
    needed = []
    if not table.is_enabled or (force and not table.is_forced):
        needed.append(f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY{force}")
    needed += [f"DROP POLICY {_quoted(policy)} ON {table.name}" for policy in table.policies if policy != POLICY]
    if POLICY not in table.policies:
        needed.append(_policy_of(table.name, package))
    return needed


def _policy_of(table: str, package: str) -> str:
    """The statement that makes the policy of a table."""
    found = re.search(rf"CREATE POLICY {POLICY} ON {table}\b[^;]*", schema_text(package, "pg"))
    return " ".join(found[0].split()) if found else ""


def _check_name(name: str, owner: str) -> None:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name) or name.startswith("pg_"):
        raise InvalidInput(
            f"{name[:80]!r} is not a valid name of a runtime role; use lower-case letters, digits and underscores, at "
            "most 63 of them, not beginning with a digit or pg_"
        )
    if name == owner:
        raise InvalidInput(f"{name} owns the tables; the runtime role must be another one")


def _create(connection: psycopg.Connection, name: str, owner: str) -> None:
    try:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege:
        raise Conflict(
            f"there is no role {name}, and {owner} may not create roles; let an administrator of the server run "
            f"CREATE ROLE {name} LOGIN; then do this again"
        ) from None


def _grant(connection: psycopg.Connection, role: _Role, package: str, version_table: str) -> None:
    """Rights on rows of each table, on the functions, and on what the owner makes later; no others."""
    _run(connection, "GRANT USAGE ON SCHEMA {schema} TO {role}", role=role)
    row = connection.execute("SELECT pg_has_role(%s, 'USAGE')", [_owner_of_schema(connection, role.schema)]).fetchone()
    if row == (True,):
        # Before PostgreSQL 15 everybody could create objects there, and so put a function in the way of the owner's.
        _run(connection, "REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC", role=role)
    # With MAINTAIN, which PostgreSQL 17 brought, it can overwrite what was erased in free space.
    use = "SELECT, INSERT, UPDATE, DELETE" + (", MAINTAIN" if connection.info.server_version >= 170000 else "")
    for name in tables(package, "pg"):
        table = sql.Identifier(name)
        _run(connection, "REVOKE ALL ON {table} FROM {role}", role=role, table=table)
        _run(connection, f"GRANT {use} ON {{table}} TO {{role}}", role=role, table=table)
    # Whoever folds the views locks the row of their version. The version of the log is the owner's.
    rights = "SELECT" if version_table == "clew_schema" else "SELECT, UPDATE"
    _run(connection, f"GRANT {rights} ON {{table}} TO {{role}}", role=role, table=sql.Identifier(version_table))
    for signature in _functions(connection, package):
        _run(connection, "GRANT EXECUTE ON FUNCTION {function} TO {role}", role=role, function=sql.SQL(signature))
    for rights in (f"{use} ON TABLES", "EXECUTE ON FUNCTIONS"):
        _run(
            connection,
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {{owner}} IN SCHEMA {{schema}} GRANT {rights} TO {{role}}",
            role=role,
        )


def _functions(connection: psycopg.Connection, package: str) -> Iterable[str]:
    """The functions that a package's schema makes, as they are named in a grant."""
    names = re.findall(r"CREATE FUNCTION (\w+)", schema_text(package, "pg"))
    rows: Sequence[tuple[str]] = connection.execute(
        "SELECT CAST(CAST(oid AS regprocedure) AS TEXT) FROM pg_proc "
        "WHERE proname = ANY (%s) AND pg_function_is_visible(oid) AND pronamespace <> 'pg_catalog'::regnamespace",
        [names],
    ).fetchall()
    return [row[0] for row in rows]


def _owner_of_schema(connection: psycopg.Connection, schema: str) -> str:
    row = connection.execute(
        "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %s", [schema]
    ).fetchone()
    return str(row[0]) if row else ""


def _run(connection: psycopg.Connection, statement: str, *, role: _Role, **parts: sql.Composable) -> None:
    names = {"role": role.name, "owner": role.owner, "schema": role.schema}
    known = {key: sql.Identifier(value) for key, value in names.items()}
    connection.execute(sql.SQL(statement).format(**known, **parts))


def _quoted(name: str) -> str:
    """A role as it is typed; quoted only if it has to be."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
