"""A RabbitMQ of one's own: the ``rabbitmq-server`` of Debian's package, its data in a directory of ours.

It has nothing to do with the service that the package may start: it has its own node, Erlang cookie and ports, all
on the loopback, and its own ``epmd``, by which the nodes of Erlang find each other, and which would outlive it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, ClassVar

from amqp import Connection
from amqp.exceptions import AMQPError

from tests.services.processes import tethered
from tests.services.redis import find_free_port
from tests.services.server import Server, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

#: Debian's program on PATH is a wrapper that changes the user and the directories; the server is here.
PATH = os.pathsep.join(("/usr/lib/rabbitmq/bin", os.environ.get("PATH", os.defpath), "/usr/sbin"))
#: Of Erlang: only the loopback, and no processor that spins while there is nothing to do.
ERLANG = "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none"


def find_program(name: str) -> str:
    """Return the path of a program of RabbitMQ's or Erlang's. Raises UnavailableError."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise UnavailableError(f"RabbitMQ: no {name} on PATH and no RABBITMQ_URL")
    return found


class RabbitMQ(Server):
    """A RabbitMQ node on a free port of the loopback. A restart keeps durable queues and persistent messages.

    With ``beside``, it joins the cluster of another node when it starts for the first time. ``configuration`` has
    more lines of ``rabbitmq.conf``.
    """

    name: ClassVar[str] = "rabbitmq"
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(
        self, *, durable: bool = True, beside: RabbitMQ | None = None, configuration: tuple[str, ...] = ()
    ) -> None:
        self.program = find_program("rabbitmq-server")
        self.finder = find_program("epmd")
        self.port, self.node_port = (find_free_port() for _ in range(2))
        self.finder_port: int = beside.finder_port if beside else find_free_port()
        self.node_name = f"django_mq_{self.port}@localhost"
        self._beside, self._more = beside, configuration
        self._finder: subprocess.Popen[bytes] | None = None
        super().__init__(durable=durable)

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def begin(self) -> None:
        """Write the configuration, and start ``epmd`` and the node."""
        self.configuration.write_text("".join(f"{line}\n" for line in self._lines()))
        self._file("plugins").write_text("[].\n")
        if self._finder is None and self._beside is None:
            command = [self.finder, "-port", str(self.finder_port), "-address", "127.0.0.1"]
            with self.log.open("ab") as log:
                self._finder = subprocess.Popen(
                    tethered(command, death_signal=signal.SIGKILL),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        super().begin()

    def _lines(self) -> list[str]:
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.console = true", "log.file = false", *self._more]
        if self._beside is not None:
            lines.append("cluster_formation.peer_discovery_backend = classic_config")
            for number, node in enumerate((self._beside, self), 1):
                lines.append(f"cluster_formation.classic_config.nodes.{number} = {node.node_name}")
        return lines

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
        return ["env", *(f"{name}={value}" for name, value in self._settings().items()), self.program]

    def _settings(self) -> dict[str, str]:
        return {
            # Erlang keeps its cookie there, which lets only this user's programs speak to the nodes.
            "HOME": str((self._beside or self).directory),
            # The program then becomes the node, and does not start it as a child, which would outlive a SIGKILL.
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_EPMD_PORT": str(self.finder_port),
            "RABBITMQ_NODENAME": self.node_name,
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
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
        }

    # What operators do. ``rabbitmqctl`` calls the same functions, and takes many times as long to start.

    def call(self, expression: str) -> str:
        """Evaluate an expression of Erlang on the node, and return what it prints of the value."""
        cookie = ((self._beside or self).directory / ".erlang.cookie").read_text()
        done = subprocess.run(
            [find_program("erl_call"), "-sname", self.node_name, "-c", cookie, "-e"],
            env=os.environ | self._settings(),
            input=f"{expression}.\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode or not done.stdout.startswith("{ok,"):
            raise RuntimeError(f"{expression} on {self.node_name}: {done.stdout}{done.stderr}")
        return done.stdout

    def run_short_of_memory(self) -> None:
        """Have the node block all publishers of the cluster, because it uses more memory than it may."""
        self.call("vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1000})")

    def run_short_of_disk(self) -> None:
        """Have the node block all publishers of the cluster, because its disk has less room than it should."""
        self.call(f"rabbit_disk_monitor:set_disk_free_limit({10**18})")

    def end_shortages(self) -> None:
        """Let publishers go on."""
        self.call("vm_memory_monitor:set_vm_memory_high_watermark(0.4)")
        self.call("rabbit_disk_monitor:set_disk_free_limit(1000)")

    def part_from(self, others: Iterable[RabbitMQ]) -> None:
        """Have the node see these no more, until it starts again. Clients still reach it."""
        for other in others:
            self.call(f"erlang:set_cookie('{other.node_name}', parted)")
            self.call(f"erlang:disconnect_node('{other.node_name}')")

    def change_password(self, password: str) -> None:
        """Change the password of the user "guest"; connections that are open stay."""
        values = f'<<"guest">>, <<"{password}">>, <<"tests">>'
        self.call(f"rabbit_auth_backend_internal:change_password({values})")

    def close_connections(self) -> None:
        """Close the connections of all clients, as an operator does. Some may end by themselves meanwhile."""
        # One by one: RabbitMQ's own way to close all stops at the first that has just ended.
        self.call('[catch rabbit_networking:close_connection(C, "tests") || C <- rabbit_networking:connections()]')

    def take_at_most(self, bytes_: int) -> None:
        """Take no larger messages over connections that begin from now on."""
        self.call(f"application:set_env(rabbit, max_message_size, {bytes_})")

    def answers(self) -> bool:
        """Return whether a client can log in."""
        with suppress(OSError, AMQPError), Connection(f"127.0.0.1:{self.port}", connect_timeout=5):
            return True
        return False


class RabbitMQCluster:
    """Nodes of RabbitMQ on this host that share their quorum queues. Usable as a context manager."""

    def __init__(self, size: int = 3, *, durable: bool = True) -> None:
        first = RabbitMQ(durable=durable)
        self.nodes = [first, *(RabbitMQ(durable=durable, beside=first) for _ in range(size - 1))]

    @property
    def url(self) -> str:
        """Where the nodes listen, with a semicolon between them."""
        return ";".join(node.url for node in self.nodes)

    def start(self) -> None:
        """Start the nodes that do not run, together: one that was killed last may have to be there first."""
        begun = [node for node in self.nodes if not node.running]
        for node in begun:
            node.begin()
        for node in begun:
            node.wait_until_it_answers()

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        with self._stack:
            for node in self.nodes:
                self._stack.callback(node.close)
            self.nodes[0].start()  # the others join it
            self.start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
