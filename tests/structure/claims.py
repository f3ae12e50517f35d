"""What one claim asks of the database: statements of SQLite, round trips to PostgreSQL and MariaDB."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import django

from tests.services.mariadb import MariaDB
from tests.services.postgresql import PostgreSQL
from tests.structure.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from django_mq.stores.base import Store

    Count = Callable[[], AbstractContextManager[list[int]]]

KINDS: Final = ("sqlite", "postgresql", "mariadb")
#: The name of PostgreSQL's socket in its directory.
SOCKET = ".s.PGSQL.5432"
#: The options of the queue of each claim; the consumers of "priorities" differ in priority.
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"grouping": "assigned"},
    "slots": {"max_consumers": 2},
    "priorities": {},
    "in flight": {"max_in_flight": 100},
    "strict": {"strict": True},
}


def counts(kind: str) -> dict[str, int]:
    """Return the count of each kind of claim from a store. Raises UnavailableError without its server."""
    with _database(kind) as (url, relay):
        os.environ |= {"DJANGO_SETTINGS_MODULE": f"tests.settings.{kind}", "DATABASE_URL": url}
        django.setup()
        from django.core.management import call_command

        from django_mq.stores.registry import private_store

        call_command("migrate", verbosity=0)
        store = private_store("default")
        count = _statements(store) if relay is None else relay.counted
        try:
            return {name: _of_a_claim(store, name, count) for name in QUEUES}
        finally:
            store.close()


@contextmanager
def _database(kind: str) -> Iterator[tuple[str, Relay | None]]:
    """Yield the URL of an empty database, and the relay before its server."""
    with tempfile.TemporaryDirectory(prefix="django_mq-structure-") as folder:
        if kind == "sqlite":
            yield f"sqlite:///{folder}/queues.sqlite3", None
            return
        with PostgreSQL() if kind == "postgresql" else MariaDB() as server:
            if isinstance(server, PostgreSQL):
                entrance, target = Path(folder, SOCKET), server.data / SOCKET
                url = server.url.replace(quote(str(server.data), safe=""), quote(folder, safe=""))
            else:
                entrance, target = Path(folder, "socket"), server.socket
                url = server.url.replace(quote(str(target), safe=""), quote(str(entrance), safe=""))
            yield url, Relay(entrance, target)


def _of_a_claim(store: Any, name: str, count: Count) -> int:
    from django_mq.stores.records import ClaimRequest
    from tests.stores.builders import claim, declare, open_session, publish

    declare(store, name, **QUEUES[name])
    sessions = [open_session(store), open_session(store)]
    for priority, session in enumerate(sessions):
        _renew(store, session, name, priority if name == "priorities" else 0)
    for number in range(4):
        publish(store, name, group_key=str(number % 2))
        if number == 1:  # what a store remembers after its first claim is not asked again
            claim(store, sessions[0], name, credit=2)
    with count() as counted:
        store.exchange(sessions[0], [], ClaimRequest(queues=(name,), credit=2))
    return counted[0]


def _renew(store: Store, session: int, queue: str, priority: int) -> None:
    from django_mq.stores.records import ConsumerInfo, Heartbeat

    consumer = ConsumerInfo(queue_name=queue, priority=priority, credit_limit=10)
    store.renew(session, Heartbeat(deadline_seconds=60, queues=(queue,), credit=10, consumers=(consumer,)))


def _statements(store: Any) -> Count:
    @contextmanager
    def counted() -> Iterator[list[int]]:
        statements: list[str] = []
        counted: list[int] = []
        store.connection.connection.set_trace_callback(statements.append)
        yield counted
        store.connection.connection.set_trace_callback(None)
        counted.append(len(statements))

    return counted
