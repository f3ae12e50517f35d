"""A server that speaks Redis's protocol as far as the handshake, and then answers what a test wants."""

from __future__ import annotations

import socketserver
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

#: Commands with which a client opens a connection.
HANDSHAKE = (b"HELLO", b"CLIENT", b"SELECT", b"AUTH")


class Liar:
    """Gives ``reply(command)`` to each command, with ``honest_at_first`` not to the handshake's.

    With ``hangs_up`` it closes the connection after each such reply.
    """

    def __init__(
        self, reply: Callable[[bytes], bytes], *, honest_at_first: bool = True, hangs_up: bool = False
    ) -> None:
        self._reply = reply
        self._honest_at_first = honest_at_first
        self._hangs_up = hangs_up
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._server.server_address[1]}/0"

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        liar = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError, ValueError):
                    while head := self.rfile.readline():
                        parts = [self._part() for _ in range(int(head[1:]))]
                        if liar.answer(parts[0].upper(), self.wfile.write):
                            return

            def _part(self) -> bytes:
                length = int(self.rfile.readline()[1:])
                return self.rfile.read(length + 2)[:length]

        return Handler

    def answer(self, command: bytes, write: Callable[[bytes], object]) -> bool:
        """Answer one command; return whether to hang up."""
        if self._honest_at_first and command in HANDSHAKE:
            write(b"-ERR unknown command\r\n" if command == b"HELLO" else b"+OK\r\n")
            return False
        write(self._reply(command))
        return self._hangs_up

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
