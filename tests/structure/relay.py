"""Counts the network round trips between a client and a server on a Unix socket."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK = 65_536
#: How late an answer is while trips are counted: what a client sends without waiting for an answer comes first.
LATE_SECONDS = 0.02


class Relay:
    """Listens at ``entrance`` and carries everything to the socket ``server`` and back, for one client."""

    def __init__(self, entrance: Path, server: Path) -> None:
        self._server = str(server)
        self._entrance = socket.socket(socket.AF_UNIX)
        self._entrance.bind(str(entrance))
        self._entrance.listen()
        self._counting = self._answered = False
        self._trips = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def counted(self) -> Iterator[list[int]]:
        """Yield a list that holds the number of round trips in the end."""
        counted: list[int] = []
        self._trips, self._answered, self._counting = 0, True, True
        yield counted
        self._counting = False
        counted.append(self._trips)

    def _accept(self) -> None:
        while True:
            client, _ = self._entrance.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while piece := client.recv(CHUNK):
                if self._counting and self._answered:
                    self._trips, self._answered = self._trips + 1, False
                server.sendall(piece)
        server.close()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while piece := server.recv(CHUNK):
                if self._counting:
                    time.sleep(LATE_SECONDS)
                    self._answered = True
                client.sendall(piece)
        client.close()
