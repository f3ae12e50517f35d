"""A MariaDB of one's own: the ``mariadbd`` on PATH, its data in a directory of ours.

Debian's package and others start a service; this one has nothing to do with it. It listens
on a socket in its directory and asks for no password (``skip-grant-tables``), which
is why no port is open. A commit is written to the log and not forced onto the disk: a killed
server keeps it, and no test cuts the power.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from tests.services.server import Server, UnavailableError, in_ci

if TYPE_CHECKING:
    from pathlib import Path

#: Enough for every worker process and thread of the largest test, and then some.
MAX_CONNECTIONS = 200
#: Debian keeps the server where an ordinary user's PATH does not lead.
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
NO_CONFIGURATION = "--no-defaults"


def find_program(name: str) -> str:
    """Return the path of a program of MariaDB's. Raises UnavailableError."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise UnavailableError(f"MariaDB: no {name} on PATH and no MARIADB_URL")
    return found


def is_expected() -> bool:
    """Whether its tests are to run: where it is installed, and in CI, which must not do without."""
    server = os.environ.get("MARIADB_URL") or shutil.which("mariadbd", path=PATH)
    return in_ci() or (bool(server) and has_driver())


def has_driver() -> bool:
    """Whether Django can speak to a server."""
    return find_spec("MySQLdb") is not None


def check_driver() -> None:
    """Raise UnavailableError where Django could not speak to the server."""
    if not has_driver():
        raise UnavailableError("MariaDB: no mysqlclient; install django-mq[mysql]")


class MariaDB(Server):
    """A MariaDB server on a socket in its directory."""

    name: ClassVar[str] = "mariadb"
    #: Nothing waits for a clean end.
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, *, durable: bool = True) -> None:
        check_driver()
        self.program = find_program("mariadbd")
        self.installer = find_program("mariadb-install-db")
        super().__init__(durable=durable)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def socket(self) -> Path:
        """Where the server listens."""
        return self.directory / "socket"

    @property
    def url(self) -> str:
        """Where the server listens: the socket's path, percent-encoded, stands for the host."""
        return f"mysql://root@{quote(str(self.socket), safe='')}/mysql"

    def start(self) -> None:
        """Make the data directory if there is none, and start."""
        if not self.data.exists():
            self._install()
        super().start()

    def _install(self) -> None:
        command = [self.installer, NO_CONFIGURATION, f"--datadir={self.data}", *self._as_root()]
        command += [self._tmpdir(), "--skip-test-db", "--auth-root-authentication-method=normal"]
        with self.log.open("ab") as log:
            done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode:
            raise RuntimeError(f"mariadb-install-db failed; its log ends with:\n{self.log_end()}")

    def _tmpdir(self) -> str:
        """A server that starts removes what looks like another server's temporary tables: keep them apart."""
        return f"--tmpdir={self.directory}"

    @staticmethod
    def _as_root() -> list[str]:
        """MariaDB refuses to be root's unless root says so."""
        return ["--user=root"] if os.geteuid() == 0 else []

    def command_line(self) -> list[str]:
        """Return the ``mariadbd`` command; small buffers suit small tests."""
        settings = {
            "datadir": str(self.data),
            "socket": str(self.socket),
            "pid-file": str(self.directory / "pid"),
            "max-connections": str(MAX_CONNECTIONS),
            "innodb-buffer-pool-size": "64M",
            "innodb-flush-log-at-trx-commit": "2",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        alone = ["--skip-networking", "--skip-grant-tables"]
        if not self.durable:
            alone += ["--debug-no-sync", "--skip-innodb-doublewrite"]
        return [self.program, NO_CONFIGURATION, *alone, *self._as_root(), self._tmpdir(), *options]

    def answers(self) -> bool:
        """Return whether a connection is accepted; not while the server still recovers."""
        import MySQLdb

        try:
            MySQLdb.connect(unix_socket=str(self.socket), user="root").close()
        except MySQLdb.OperationalError:
            return False
        return True
