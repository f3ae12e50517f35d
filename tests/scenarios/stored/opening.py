"""A store of each kind for the command, in a database that is made for it and removed after."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import django

from tests.services.environment import Services

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.environment import Environment

#: From the kind of store to the settings of the tests, and to the server that has to run.
KINDS: Final[dict[str, tuple[str, str | None]]] = {
    "memory": ("sqlite", None),
    "sqlite": ("sqlite", None),
    "postgresql": ("postgresql", "postgresql"),
    "mysql": ("mariadb", "mariadb"),
}


@contextmanager
def opened(kind: str) -> Iterator[Environment]:
    """The environment of a store of this kind. Raises UnavailableError if its server cannot be started."""
    with database(kind):
        # Only now: models can be imported when Django knows its settings.
        from django_mq.stores.registry import MEMORY, private_store
        from tests.scenarios.stored.environment import stored_environment

        store = private_store(MEMORY if kind == "memory" else "default")
        try:
            yield stored_environment(store)
        finally:
            store.close()


@contextmanager
def database(kind: str) -> Iterator[None]:
    """Django, set up with empty tables of this kind under ``default``. Raises UnavailableError."""
    settings, server = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="django_mq-scenarios-") as folder, Services() as services:
        url = f"sqlite:///{folder}/queues.sqlite3" if server is None else services.url(server)
        os.environ |= {"DJANGO_SETTINGS_MODULE": f"tests.settings.{settings}", "DATABASE_URL": url}
        django.setup()
        logging.getLogger("django_mq").setLevel(logging.ERROR)  # dead letters are what the scenarios are about
        from django.db import connection

        before = connection.settings_dict["NAME"]
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        try:
            yield
        finally:
            connection.creation.destroy_test_db(before, verbosity=0)
