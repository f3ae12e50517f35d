"""Show the health of a process to a service manager, which does not have to start a Python for it.

A probe file is fresh as long as it is well. The port answers ``/live`` and ``/ready`` with 200 or 503.
"""

from __future__ import annotations

import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("django_mq.supervisor")

#: A request that takes longer, in seconds, is given up.
REQUEST_SECONDS = 5.0


class ProbeState(NamedTuple):
    """What the probes show."""

    #: Whether it works, starts or ends: a restart would not help.
    live: bool
    #: Whether it takes messages.
    ready: bool


class ProbeFiles:
    """The files ``live`` and ``ready`` in a directory: touched while it is so, and absent otherwise."""

    def __init__(self, directory: str) -> None:
        """Create the directory, and show that the process starts. Raises OSError."""
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write(ProbeState(live=True, ready=False))
        self._works = True

    def show(self, health: ProbeState) -> None:
        """Touch or remove the files. Log the first of several errors."""
        try:
            self._write(health)
        except OSError as error:
            if self._works:
                logger.error("The probe files cannot be written, trying again: %s", error)  # noqa: TRY400
            self._works = False
        else:
            self._works = True

    def _write(self, health: ProbeState) -> None:
        for name, is_so in health._asdict().items():
            if is_so:
                (self._directory / name).touch()
            else:
                (self._directory / name).unlink(missing_ok=True)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, health: Callable[[], ProbeState]) -> None:
        self.health = health
        if socket.has_dualstack_ipv6():
            self.address_family = socket.AF_INET6
        super().__init__(("", port), _Request)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)  # without a question to a name server
        self.server_address = self.socket.getsockname()


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer a probe."""
        asked = self.path.partition("?")[0].removeprefix("/")
        answers = self.server.health()._asdict()
        if asked not in answers:
            self._answer(404, "Ask for /live or /ready.\n")
        elif answers[asked]:
            self._answer(200, f"{asked}\n")
        else:
            self._answer(503, f"not {asked}\n")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def version_string(self) -> str:
        return "django_mq"

    def log_message(self, *_: object) -> None:
        """Log nothing: a probe asks every few seconds."""


class ProbePort:
    """Answers probes over HTTP, in a thread of its own."""

    def __init__(self, port: int, health: Callable[[], ProbeState]) -> None:
        """Listen on the port, on all addresses of this machine. Raises OSError."""
        self._server = _Server(port, health)
        threading.Thread(target=self._server.serve_forever, name="django_mq-probes", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class Probes:
    """The probes of one process: files, a port, both or neither."""

    def __init__(self, health: Callable[[], ProbeState], *, directory: str | None, port: int | None) -> None:
        """Begin to show the health. Raises OSError."""
        self._health = health
        self._files = None if directory is None else ProbeFiles(directory)
        self._port = None if port is None else ProbePort(port, health)

    def show(self) -> None:
        """Bring the files up to date; call this often."""
        if self._files is not None:
            self._files.show(self._health())

    def close(self) -> None:
        """Show that the process is gone."""
        if self._files is not None:
            self._files.show(ProbeState(live=False, ready=False))
        if self._port is not None:
            self._port.close()
