"""The site of ``--serve``: Django's own server, in a process of its own."""

from __future__ import annotations

import socket

from django.conf import settings

from library.demo.errors import DemoFailed
from library.demo.processes import Child


class Site(Child):
    """The example's pages and the admin on a port of the loopback."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        refuse_busy_port(port)
        log = settings.VAR_DIR / "site.log"
        log.write_bytes(b"")
        super().__init__(["manage.py", "runserver", "--noreload", self.address], log)


def refuse_busy_port(port: int) -> None:
    """Raise DemoFailed if another process listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DemoFailed(
                f"The site cannot listen on port {port} ({error.strerror}); name another with --port."
            ) from error
