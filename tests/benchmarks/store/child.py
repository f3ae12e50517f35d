"""A process that works for a measurement: told what on its standard input, it answers on its standard output.

    python -m tests.benchmarks.store.child ROLE   < {"alias": ..., "settings": {...}, ...}

It says "ready", waits for a line, works, and says what came of it as JSON. A child knows the database by the
settings it is given: a test's, or a schema's, stand in no settings module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

#: Role to the module and function that plays it; called with the order, it returns the work.
ROLES = {
    "drain": ("tests.benchmarks.store.draining", "prepare_drain"),
    "drain_small": ("tests.benchmarks.store.draining", "prepare_small_drain"),
    "drain_limited": ("tests.benchmarks.store.limiting", "prepare_drain"),
    "drain_raw": ("tests.benchmarks.store.draining", "prepare_raw_drain"),
    "drain_bulk": ("tests.benchmarks.store.bulks", "prepare_worker"),
    "write_effects": ("tests.benchmarks.store.bulks", "prepare_loop"),
    "idle": ("tests.benchmarks.store.idling", "prepare_worker"),
    "wait": ("tests.benchmarks.store.waking", "prepare_sessions"),
    "remember": ("tests.benchmarks.store.remembering", "prepare_worker"),
}


class Child:
    """The parent's side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._heard, self._told = cast("IO[str]", process.stdout), cast("IO[str]", process.stdin)

    def hear(self) -> str:
        """Return the child's next line. Raises RuntimeError when it has died."""
        line = self._heard.readline()
        if not line:
            raise RuntimeError(f"A process of the benchmark ended with exit code {self._process.wait()}.")
        return line

    def tell(self, line: str) -> None:
        """Send a line."""
        self._told.write(f"{line}\n")
        self._told.flush()

    def result(self) -> dict[str, Any]:
        """Wait for what came of its work."""
        answer: dict[str, Any] = json.loads(self.hear())
        return answer


@contextmanager
def children(role: str, alias: str, number: int, **order: Any) -> Iterator[list[Child]]:
    """Start so many processes, yield them when all are ready, and see them end."""
    command = [sys.executable, "-m", "tests.benchmarks.store.child", role]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    processes = [subprocess.Popen(command, **pipes) for _ in range(number)]
    try:
        found = [Child(process) for process in processes]
        for child in found:
            child.tell(json.dumps(_order(alias) | order, default=str))
        for child in found:
            child.hear()
        yield found
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def side_by_side(role: str, alias: str, number: int, **order: Any) -> list[dict[str, Any]]:
    """Let so many processes begin together, and return what came of each."""
    with children(role, alias, number, **order) as found:
        for child in found:
            child.tell("go")
        return [child.result() for child in found]


def _order(alias: str) -> dict[str, Any]:
    from django.conf import settings
    from django.db import connections

    return {
        "alias": alias,
        "settings": connections[alias].settings_dict,
        "django_mq": getattr(settings, "DJANGO_MQ", {}),
    }


def main() -> None:
    """Be a child."""
    order = json.loads(sys.stdin.readline())
    import django

    django.setup()
    from django.conf import settings
    from django.db import connections

    settings.DJANGO_MQ = order["django_mq"]
    connections.settings[order["alias"]] = connections.configure_settings(
        connections.settings | {order["alias"]: order["settings"]}
    )[order["alias"]]
    module, function = ROLES[sys.argv[1]]
    work: Callable[[], dict[str, Any]] = getattr(import_module(module), function)(order)
    _say("ready")
    sys.stdin.readline()
    begin = time.time()
    answer = work()
    _say(json.dumps({"begin": begin, "end": time.time()} | answer))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
