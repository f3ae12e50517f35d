"""A standalone cluster of Spark's own daemons, as they come in the wheel: a master and its workers."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import urlopen

import psutil

from tests.services.processes import alive, wait_until_gone
from tests.services.redis import find_free_port
from tests.services.server import Server, UnavailableError

#: What a daemon needs beside its heap is its own affair.
DAEMON_MEMORY = "256m"
EXECUTOR_MEMORY_MIB = 600
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def home() -> Path:
    """Return the wheel's folder. Raises UnavailableError."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise UnavailableError("no pyspark")
    return Path(found.origin).parent


class Daemon(Server):
    """One JVM, in the foreground."""

    main: ClassVar[str]

    def arguments(self) -> list[str]:
        """Return what its class is started with."""
        raise NotImplementedError

    def command_line(self) -> list[str]:
        """Return the command of the wheel that runs the class."""
        said = [f"SPARK_DAEMON_MEMORY={DAEMON_MEMORY}", "SPARK_LOCAL_IP=127.0.0.1", f"SPARK_HOME={home()}"]
        # What is on our path is on no executor's: it has what it is sent.
        return [
            "/usr/bin/env",
            "-u",
            "PYTHONPATH",
            *said,
            str(home() / "bin" / "spark-class"),
            self.main,
            *self.arguments(),
        ]


class Master(Daemon):
    """Gives the executors of its workers to the programs that ask."""

    name = "spark-master"
    main = "org.apache.spark.deploy.master.Master"

    def __init__(self) -> None:
        super().__init__()
        self.port, self.page = find_free_port(), find_free_port()

    @property
    def url(self) -> str:
        """What a session is given as its master."""
        return f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        """Return its addresses."""
        return ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.page)]

    def answers(self) -> bool:
        """Return whether it is ready for workers."""
        return self.state().get("status") == "ALIVE"

    def state(self) -> dict[str, Any]:
        """Return what it says of itself; nothing while it starts."""
        found: dict[str, Any] = {}
        with suppress(OSError, ValueError), urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=10) as answer:
            found = json.load(answer)
        return found


class Worker(Daemon):
    """Runs one executor of one processor at a time."""

    name = "spark-worker"
    main = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, master: Master) -> None:
        super().__init__()
        self.master, self.port = master, find_free_port()

    @property
    def url(self) -> str:
        """Where the master finds it."""
        return f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        """Return its addresses, its resources, and the address of the master."""
        places = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(find_free_port())]
        amounts = [
            "--cores",
            "1",
            "--memory",
            f"{EXECUTOR_MEMORY_MIB}m",
            "--work-dir",
            str(self.directory / "work"),
        ]
        return [*places, *amounts, self.master.url]

    def answers(self) -> bool:
        """Return whether the master knows it."""
        workers = self.master.state().get("workers", [])
        return any(one["port"] == self.port and one["state"] == "ALIVE" for one in workers)

    def executors(self) -> list[psutil.Process]:
        """Return the executors that it runs now."""
        found = self._children(psutil.Process(self.pid))
        return [child for child in found if alive(child) and EXECUTOR in child.cmdline()]

    def kill_executors(self) -> int:
        """Kill its executors with the Python processes under them; return how many executors there were."""
        found = self.executors()
        below = [child for one in found for child in self._children(one)]
        for process in [*found, *below]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        wait_until_gone([*found, *below])
        return len(found)

    def stop(self) -> None:
        """Stop it, and what it would leave behind."""
        if self.running:
            self.kill_executors()
        super().stop()

    @staticmethod
    def _children(process: psutil.Process) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return process.children(recursive=True)
        return []


class Cluster:
    """A master and two workers, as a context manager."""

    def __init__(self) -> None:
        self.master = Master()
        self.workers = [Worker(self.master), Worker(self.master)]

    def __enter__(self) -> Cluster:
        self.master.start()
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in (*self.workers, self.master):
            daemon.close()
