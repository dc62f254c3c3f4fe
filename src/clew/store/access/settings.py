"""Settings: values by project and name; the empty project is every project."""

from clew.store.store import Store


def set_setting(store: Store, project: str, name: str, value: str) -> None:
    with store.database.write() as tx:
        tx.run("setting_set", project=project, name=name, value=value)


def list_settings(store: Store) -> dict[tuple[str, str], str]:
    """Every setting, by project and name."""
    with store.database.read() as tx:
        return {(project, name): value for project, name, value in tx.run("settings")}
