"""A connection to a database server that breaks when an answer is too large."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def upstream(settings: dict[str, Any]) -> socket.socket:
    """A connection to the server that the settings name, by its socket or its host."""
    host, port = settings["HOST"], int(settings["PORT"] or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    connection = socket.socket(socket.AF_UNIX)
    path = Path(host)
    connection.connect(str(path / f".s.PGSQL.{port}" if path.is_dir() else path))
    return connection


@contextmanager
def narrow(settings: dict[str, Any], most_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield settings of connections that bring no more bytes than so many in one answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, settings, most_bytes), daemon=True).start()
        yield settings | {"HOST": "127.0.0.1", "PORT": str(server.getsockname()[1])}
        server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, settings: dict[str, Any], most_bytes: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            threading.Thread(target=_pass_on, args=(client, upstream(settings), most_bytes), daemon=True).start()


def _pass_on(client: socket.socket, server: socket.socket, most_bytes: int) -> None:
    answered = 0
    with client, server, selectors.DefaultSelector() as ready, suppress(OSError):
        ready.register(client, selectors.EVENT_READ, server)
        ready.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in ready.select():
                data = key.fileobj.recv(2**16)  # type: ignore[union-attr]
                answered = 0 if key.fileobj is client else answered + len(data)
                if not data or answered > most_bytes:
                    return
                key.data.sendall(data)
