"""The sides: a broker and a result backend each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.benchmarks.celery.sides import PATIENCE_SECONDS, celery_worker, wait_until
from tests.benchmarks.results import project

if TYPE_CHECKING:
    import subprocess
    from contextlib import AbstractContextManager
    from pathlib import Path


class ResultSide:
    """A broker and a result backend, with its app and its workers."""

    def __init__(self, name: str, broker: str, backend: str, folder: Path, **environment: str) -> None:
        self.name = name
        self.app: Any = project.make(broker, backend)
        self._environment = {"BENCH_BROKER": broker, "BENCH_BACKEND": backend, **environment}
        self._stamps = folder / f"{name}.stamps"

    def worker(self, *options: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run a worker, and end it as an operator would."""
        return celery_worker(project.__name__, self._environment, *options)

    def get(self, number: int) -> None:
        """Have a task run, and wait for its result. Raises AssertionError."""
        assert self.app.tasks["bench.answer"].delay(number).get(timeout=PATIENCE_SECONDS) == number

    def chord(self, size: int) -> tuple[float, float]:
        """Run a chord; return when its last member ran, and when its body began. Raises AssertionError."""
        from celery import chord

        tasks = self.app.tasks
        header = [tasks["bench.member"].s() for _ in range(size)]
        result = chord(header, app=self.app)(tasks["bench.body"].s())
        # Else Celery reads the result of each member again and again: with Redis, a chord of 10,000 takes minutes.
        last, began, members = result.get(timeout=PATIENCE_SECONDS, follow_parents=False)
        assert members == size
        return last, began

    def drain(self, task: str, amount: int, *options: str) -> float:
        """Return the seconds that a worker needs for so many tasks, which wait for it."""
        from django.db import transaction

        self._stamps.write_text("", encoding="ascii")
        with self.app.producer_pool.acquire(block=True) as producer, transaction.atomic():
            stamp, work = self.app.tasks["bench.stamp"], self.app.tasks[task]
            stamp.apply_async((str(self._stamps),), producer=producer)
            for number in range(amount):
                work.apply_async((number,), producer=producer)
            stamp.apply_async((str(self._stamps),), producer=producer)
        with self.worker(*options):
            wait_until(lambda: self._stamps.read_text(encoding="ascii").count("\n") == 2)
        began, ended = map(float, self._stamps.read_text(encoding="ascii").splitlines())
        return ended - began
