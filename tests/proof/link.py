"""A way to a server that can be made slow: what the server answers arrives late."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

CHUNK = 65_536


class Link:
    """Listens on a port of its own and carries everything to the server of ``url`` and back."""

    def __init__(self, url: str) -> None:
        self._server = urlsplit(url)
        self._entrance = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._ends: list[socket.socket] = []
        self._closed = threading.Event()
        #: How late each piece of an answer is, in seconds.
        self.late_seconds = 0.0

    @property
    def url(self) -> str:
        """The server's URL by way of this link."""
        return urlunsplit(self._server._replace(netloc=f"127.0.0.1:{self.port}"))

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._entrance.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._let_in)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        for end in (self._entrance, *self._ends):
            hang_up(end)

    def _start(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _let_in(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._entrance.accept()
                server = self._reach()
                self._ends += client, server
                self._start(self._carry, client, server)
                self._start(self._carry_late, server, client)

    def _reach(self) -> socket.socket:
        return socket.create_connection((self._server.hostname, self._server.port))

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(CHUNK):
                target.sendall(piece)
        hang_up(target)

    def _carry_late(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(CHUNK):
                self._closed.wait(self.late_seconds)
                target.sendall(piece)
        hang_up(target)


def hang_up(end: socket.socket) -> None:
    # Closing alone would not wake the thread that reads from it.
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
