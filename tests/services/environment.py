"""The servers of one run: those that DATABASE_URL and REDIS_URL name, else our own, started when needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.services.postgresql import PostgreSQL
from tests.services.redis import Redis

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.services.server import Server

SERVERS: dict[str, type[Server]] = {"postgresql": PostgreSQL, "redis": Redis}
#: The environment variable that names a server already there; it is never started or stopped then.
VARIABLES = {"postgresql": "DATABASE_URL", "redis": "REDIS_URL"}


class Services:
    """Starts each server at most once and stops what it started."""

    def __init__(self) -> None:
        self._started: dict[str, Server] = {}

    def url(self, name: str) -> str:
        """Return the URL of the named server, which runs from now on. Raises UnavailableError."""
        given = os.environ.get(VARIABLES[name])
        return given or self._own(name).url

    def _own(self, name: str) -> Server:
        if name not in self._started:
            server = SERVERS[name]()
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
