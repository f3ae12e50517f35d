"""Wait for the end: show a progress bar, and restart the worker when it dies."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from django_mq.models import Message
from tqdm import tqdm

from library.demo.errors import DemoFailed
from library.demo.saying import say
from library.indexing import open_files
from library.models import SourceFile, Summary

if TYPE_CHECKING:
    from library.demo.worker import Workers

#: Queues that are empty in the end.
WORKED_OFF = ("index", "facts", "closing")
LOOK_SECONDS = 0.1
#: Longest time without a single file done.
PATIENCE_SECONDS = 60.0
#: A worker that dies so often without a file done in between will not live.
FRUITLESS_DEATHS = 3

tqdm.monitor_interval = 0  # no thread: this process starts others


class Watch:
    """Follow the files until all are done. Raise DemoFailed if there is no progress."""

    def __init__(self, worker: Workers, *, kill_once: bool) -> None:
        self.worker = worker
        self.total = SourceFile.objects.count()
        self.done = 0
        self._kill_wanted = kill_once
        self._fruitless_deaths = 0
        self._moved_at = time.monotonic()

    def follow(self) -> None:
        """Show the progress, and fail if there is none."""
        interactive = sys.stderr.isatty()
        with tqdm(
            total=self.total,
            desc="Indexing",
            unit=" files",
            mininterval=0.1 if interactive else 5,
            dynamic_ncols=True,
        ) as bar:
            # A fast worker may be done between two looks: what was asked for is done all the same.
            while self._kill_wanted or not self.over():
                self.look()
                bar.update(self.done - bar.n)
                time.sleep(LOOK_SECONDS)
            bar.update(self.total - bar.n)

    def over(self) -> bool:
        """Whether the summary is written and the last verdict of the worker has reached the database."""
        alive = Message.objects.exclude(state=Message.Status.DEAD)
        return Summary.objects.exists() and not alive.filter(queue__name__in=WORKED_OFF).exists()

    def look(self) -> None:
        """Look at the files and at the worker once."""
        self._count()
        if self._kill_wanted and self.done * 2 >= self.total:
            self._kill_wanted = False
            say(f"--kill-once: kill -9 for the worker and its children after {self.done} files.")
            self.worker.kill()
        if self.worker.revive():
            self._fruitless_deaths += 1
        self._judge()

    def _count(self) -> None:
        done = self.total - open_files()
        if done > self.done:
            self._fruitless_deaths = 0
            self._moved_at = time.monotonic()
        self.done = done

    def _judge(self) -> None:
        if self._fruitless_deaths >= FRUITLESS_DEATHS:
            raise DemoFailed(f"The worker dies at once. The end of its log:\n{self.worker.log_end()}")
        if time.monotonic() - self._moved_at > PATIENCE_SECONDS:
            raise DemoFailed(
                f"{self.total - self.done} of {self.total} files are open, and none was done for "
                f"{PATIENCE_SECONDS:.0f} seconds. The end of the worker's log:\n{self.worker.log_end()}"
            )
