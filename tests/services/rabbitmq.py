"""A RabbitMQ of one's own: the ``rabbitmq-server`` of Debian's package, its data in a directory of ours.

It has nothing to do with the service that the package may start: it has its own node, Erlang cookie and ports, all
on the loopback, and its own ``epmd``, by which the nodes of Erlang find each other, and which would outlive it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from amqp import Connection
from amqp.exceptions import AMQPError

from tests.services.processes import tethered
from tests.services.redis import find_free_port
from tests.services.server import Server, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

#: Debian's program on PATH is a wrapper that changes the user and the directories; the server is here.
PATH = os.pathsep.join(("/usr/lib/rabbitmq/bin", os.environ.get("PATH", os.defpath), "/usr/sbin"))


def find_program(name: str) -> str:
    """Return the path of a program of RabbitMQ's or Erlang's. Raises UnavailableError."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise UnavailableError(f"RabbitMQ: no {name} on PATH and no RABBITMQ_URL")
    return found


class RabbitMQ(Server):
    """A RabbitMQ node on a free port of the loopback. A restart keeps durable queues and persistent messages."""

    name: ClassVar[str] = "rabbitmq"
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, *, durable: bool = True) -> None:
        self.program = find_program("rabbitmq-server")
        self.finder = find_program("epmd")
        self.port, self.finder_port, self.node_port = (find_free_port() for _ in range(3))
        self._finder: subprocess.Popen[bytes] | None = None
        super().__init__(durable=durable)

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Write the configuration, and start ``epmd`` and the node."""
        self.configuration.write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.file = false\n"
        )
        self._file("plugins").write_text("[].\n")
        if self._finder is None:
            command = [self.finder, "-port", str(self.finder_port), "-address", "127.0.0.1"]
            with self.log.open("ab") as log:
                self._finder = subprocess.Popen(
                    tethered(command, death_signal=signal.SIGKILL),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        super().start()

    def close(self) -> None:
        """Stop the node and ``epmd``, and remove the data."""
        super().close()
        if self._finder is not None and not self.running:
            self._finder.kill()
            self._finder.wait()
            self._finder = None

    @property
    def configuration(self) -> Path:
        """The file that says where the server listens and logs."""
        return self._file("rabbitmq.conf")

    def _file(self, name: str) -> Path:
        return self.directory / name

    def command_line(self) -> list[str]:
        """Return the ``rabbitmq-server`` command with its environment; it stays in the foreground."""
        settings = {
            # Erlang keeps its cookie there, which lets only this user's programs speak to the node.
            "HOME": str(self.directory),
            "ERL_EPMD_PORT": str(self.finder_port),
            "RABBITMQ_NODENAME": f"django_mq_{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.node_port),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self.configuration),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self._file("advanced.config")),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._file("plugins")),
            "RABBITMQ_MNESIA_BASE": str(self._file("mnesia")),
            "RABBITMQ_LOG_BASE": str(self.directory),
            "RABBITMQ_PID_FILE": str(self._file("pid")),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self._file("config")),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(self._file("feature_flags")),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        return ["env", *(f"{name}={value}" for name, value in settings.items()), self.program]

    def answers(self) -> bool:
        """Return whether a client can log in."""
        with suppress(OSError, AMQPError), Connection(f"127.0.0.1:{self.port}", connect_timeout=5):
            return True
        return False
