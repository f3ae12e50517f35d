"""A PgBouncer of one's own before a PostgreSQL: transactions of all clients share one connection to it.

One is the smallest pool there is, and the hardest: what a client leaves behind on the
connection, the next transaction, another client's, meets.
"""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg

from tests.services.server import Server, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Debian keeps the server where an ordinary user's PATH does not lead.
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
PORT = "6432"
CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
unix_socket_dir = {directory}
listen_addr =
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 1
max_client_conn = 100
"""


class PgBouncer(Server):
    """A pooler on a socket in its directory, before the server that Django's settings lead to."""

    name: ClassVar[str] = "pgbouncer"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        program = shutil.which("pgbouncer", path=PATH)
        if program is None:
            raise UnavailableError("PgBouncer: no pgbouncer on PATH")
        self.program = program
        #: The settings that lead to the server directly.
        self.server = settings
        super().__init__()

    @property
    def url(self) -> str:
        """What psycopg connects to."""
        return f"host={self.directory} port={PORT} user={self.server['USER']} dbname={self.server['NAME']}"

    def user(self) -> str:
        """Return the user with access to PostgreSQL's directory; the program refuses to run as root."""
        if os.geteuid() != 0:
            return "-"
        host = Path(self.server["HOST"])
        return pwd.getpwuid(host.stat().st_uid).pw_name if host.is_absolute() else "nobody"

    def start(self) -> None:
        """Write the configuration, and start."""
        keys = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password"}
        server = " ".join(f"{word}={self.server[key]}" for key, word in keys.items() if self.server.get(key))
        text = CONFIGURATION.format(server=server, directory=self.directory, port=PORT)
        self.configuration.write_text(text)
        if os.geteuid() == 0:
            shutil.chown(self.directory, self.user())
            shutil.chown(self.configuration, self.user())
        super().start()

    @property
    def configuration(self) -> Path:
        """The file that says all this."""
        return self.directory / "pgbouncer.ini"

    def command_line(self) -> list[str]:
        """Return the ``pgbouncer`` command; it stays in the foreground."""
        return [self.program, "-q", str(self.configuration)]

    def answers(self) -> bool:
        """Return whether a statement comes through."""
        try:
            with psycopg.connect(self.url, autocommit=True, prepare_threshold=None) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True
