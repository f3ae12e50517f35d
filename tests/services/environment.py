"""The servers of one run: those that the environment names, else our own, started when needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.services.mariadb import MariaDB
from tests.services.postgresql import PostgreSQL
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import Redis

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.services.server import Server

SERVERS: dict[str, type[Server]] = {
    "mariadb": MariaDB,
    "postgresql": PostgreSQL,
    "rabbitmq": RabbitMQ,
    "redis": Redis,
}
#: Those that come as wheels, and so are to be had everywhere.
USUAL = ("postgresql", "redis")
#: The environment variable that names a server already there; it is never started or stopped then.
VARIABLES = {
    "mariadb": "MARIADB_URL",
    "postgresql": "DATABASE_URL",
    "rabbitmq": "RABBITMQ_URL",
    "redis": "REDIS_URL",
}


class Services:
    """Starts each server at most once and stops what it started."""

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._started: dict[str, Server] = {}

    def url(self, name: str) -> str:
        """Return the URL of the named server, which runs from now on. Raises UnavailableError."""
        given = os.environ.get(VARIABLES[name])
        return given or self._own(name).url

    def _own(self, name: str) -> Server:
        if name not in self._started:
            server = SERVERS[name](durable=self._durable)
            # Its own way out clears a failed or interrupted start away.
            server.__enter__()
            self._started[name] = server
        return self._started[name]

    def environment(self, names: list[str]) -> dict[str, str]:
        """Return this process's environment, completed with the URLs of the named servers."""
        return os.environ | {VARIABLES[name]: self.url(name) for name in names}

    def close(self) -> None:
        """Stop every server that was started here."""
        while self._started:
            self._started.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
