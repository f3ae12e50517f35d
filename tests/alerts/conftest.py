"""Targets, and a webhook that notes what it gets."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = b"k" * 24
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Webhook(ThreadingHTTPServer):
    """Answers each request with ``status``; with None it never does."""

    status: int | None = 200
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.closing = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?token=t0p-s3cret"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        server.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if server.status is None:
            # A byte now and then, and never the end of the line.
            while not server.closing.wait(0.05):
                self.wfile.write(b"H")
            return
        self.send_response(server.status)
        self.send_header("location", f"http://127.0.0.1:{server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()
