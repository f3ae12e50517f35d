"""A way to a PostgreSQL that ends one connection, at a step that is told: a piece of what its clients send."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from tests.proof.link import CHUNK, hang_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

USUAL_PORT = 5432


class Scissors:
    """Listens on a port of its own and carries everything to the server of ``url`` and back, until it cuts.

    Steps are counted over all connections: the first message of a connection is one, and each statement.
    """

    def __init__(self, url: str) -> None:
        self._server = urlsplit(url)
        self._entrance = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._ends: list[socket.socket] = []
        self._counting = threading.Lock()
        self._at: int | None = None
        self._act: Callable[[], None] | None = None
        self._answered = False
        #: How many steps there were since ``cut_at``.
        self.steps = 0
        #: When the connection was ended, on the monotonic clock.
        self.cut: float | None = None

    def cut_at(self, step: int | None, *, answered: bool = False, act: Callable[[], None] | None = None) -> None:
        """Count anew, and end the connection that takes this step.

        With ``answered``, end it when the server has taken the step; with ``act``, call that instead.
        """
        with self._counting:
            self.steps, self.cut = 0, None
            self._at, self._answered, self._act = step, answered, act

    @property
    def url(self) -> str:
        """The server's URL by way of this place."""
        user = f"{self._server.username}@" if self._server.username else ""
        return urlunsplit(self._server._replace(netloc=f"{user}127.0.0.1:{self._entrance.getsockname()[1]}"))

    def __enter__(self) -> Self:
        threading.Thread(target=self._let_in, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for end in (self._entrance, *self._ends):
            hang_up(end)

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._entrance.accept()
                try:
                    server = self._connect()
                except OSError:
                    hang_up(client)  # the server is away
                    continue
                self._ends += client, server
                doomed = threading.Event()
                threading.Thread(target=self._send, args=(client, server, doomed), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client, doomed), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = unquote(self._server.netloc.rpartition("@")[2].partition(":")[0]), self._server.port
        if not host.startswith("/"):
            return socket.create_connection((host, port or USUAL_PORT))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{host}/.s.PGSQL.{port or USUAL_PORT}")
        except OSError:
            server.close()
            raise
        return server

    def _send(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while piece := client.recv(CHUNK):
                if self._is_time():
                    if self._act is not None:
                        self._act()
                    elif not self._answered:
                        break
                    else:
                        doomed.set()
                server.sendall(piece)
        hang_up(client)
        hang_up(server)

    def _is_time(self) -> bool:
        with self._counting:
            self.steps += 1
            if self.steps != self._at:
                return False
            self.cut = time.monotonic()
            return True

    @staticmethod
    def _answer(server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        with suppress(OSError):
            while (piece := server.recv(CHUNK)) and not doomed.is_set():
                client.sendall(piece)
        hang_up(client)
        hang_up(server)
