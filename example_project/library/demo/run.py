"""Run the steps of the demo."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection
from django.utils import timezone

from library.demo import report
from library.demo.checking import check
from library.demo.direct import analyse_all
from library.demo.errors import DemoFailed
from library.demo.fresh import PASSWORD, USERNAME, prepare
from library.demo.learning import learn
from library.demo.lock import only_one
from library.demo.outcomes import totals_of
from library.demo.rabbitmq import RabbitMQ
from library.demo.reporting import report_on_shelves
from library.demo.saying import say, say_table
from library.demo.site import Site
from library.demo.stored import dead_letters, stored_outcomes, stored_totals
from library.demo.watching import Watch
from library.demo.worker import Workers
from library.enlisting import announce_closing, enlist, rehearse_rollback
from library.models import SourceFile
from library.shelves import sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from library.shelves import Source

#: Files to a transaction.
BATCH = 100


@dataclass(frozen=True, slots=True)
class Demo:
    """One run. Raises DemoFailed if the index is wrong at the end."""

    limit: int | None = None
    keep: bool = False
    kill_once: bool = False
    #: Whether the history is archived and learnt from in the end.
    spark: bool = False
    #: Port of the site; None for no site.
    port: int | None = None
    #: The URL of the RabbitMQ whose workers run the tasks; None for a worker on the database.
    through: str | None = None

    def run(self) -> None:
        """Take the steps; all started processes end with the last one."""
        with ExitStack() as stack:
            lock = stack.enter_context(only_one(settings.VAR_DIR))
            site = Site(self.port) if self.port else None
            rabbitmq = stack.enter_context(RabbitMQ(self.through, keep=self.keep)) if self.through else None
            prepare(keep=self.keep)
            if site:
                stack.enter_context(site)
                say(login_at(site))
            worker = stack.enter_context(Workers(lock, self.through))
            self.index(worker, rabbitmq)
            if self.spark:
                learn()
            if site:
                serve(site, worker)

    def index(self, worker: Workers, rabbitmq: RabbitMQ | None) -> None:
        """Index the library with the worker's help, and check the result."""
        started_at, started = timezone.now(), time.monotonic()
        selected = sources(self.limit)
        if rabbitmq:
            say(f"The tasks go through the database to RabbitMQ at {rabbitmq.shown}.")
        publish(selected)
        Watch(worker, kill_once=self.kill_once).follow()
        say(f"Every file is done after {time.monotonic() - started:.1f} s. Parsing all again without the queue.")
        parsing_seconds = judge(selected, is_here=rabbitmq is None)
        report_on_shelves(worker)
        if rabbitmq:
            say_table("Through RabbitMQ", rabbitmq.report(is_whole=not self.keep))
        else:
            say_table("Parsing the files is the work", report.overhead(started_at, parsing_seconds))
        say_table("Rates", report.rates(started_at))
        say_table("Waits from ready to claimed", report.waits(started_at))
        say(f"\nEverything is right after {time.monotonic() - started:.1f} s; workers that died: {worker.deaths}.")


def publish(selected: list[Source]) -> None:
    """Enlist all files that are not in the index, after one batch that is rolled back."""
    known = set(SourceFile.objects.values_list("path", flat=True))
    new = [source for source in selected if source.path not in known]
    hints = "Redis" if settings.DJANGO_MQ["REDIS_URL"] else "no Redis"
    say(f"{len(new):,} files to index, with {connection.display_name} and {hints}.")
    rehearse(new[:BATCH])
    started = time.monotonic()
    for batch in batches(new):
        enlist(batch)
    announce_closing()
    seconds = time.monotonic() - started
    say(f"Published {len(new):,} tasks in {seconds:.1f} s, each in the transaction of its row.")


def rehearse(batch: list[Source]) -> None:
    """Show that a rolled-back transaction leaves nothing. Raises DemoFailed if it does."""
    rows, messages = rehearse_rollback(batch)
    say(f"Rolled back a batch of {len(batch)}: {rows} rows and {messages} messages of it exist.")
    if rows or messages:
        raise DemoFailed("A rolled-back transaction left something behind.")


def batches(items: list[Source]) -> Iterator[list[Source]]:
    """Yield the items in lists of BATCH."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def judge(selected: list[Source], *, is_here: bool = True) -> float:
    """Compare the index with direct parsing; return the seconds of the latter. Raises DemoFailed.

    The dead letters of tasks are those of the broker that has them: here, or RabbitMQ.
    """
    locations = dict(SourceFile.objects.values_list("path", "location"))
    locations |= {source.path: source.location for source in selected}
    started = time.monotonic()
    direct = analyse_all(locations)
    seconds = time.monotonic() - started
    stored, totals, dead = stored_outcomes(), stored_totals(), dead_letters() if is_here else None
    say_table("Totals", report.totals(totals, totals_of(direct)))
    if dead is not None:
        say_table(f"Dead letters: {len(dead)}", report.graves(dead))
    check(stored, totals, dead, direct)
    return seconds


def login_at(site: Site) -> str:
    """Print the address of the admin, and its user."""
    return f"Admin: http://{site.address}/admin/  user {USERNAME}, password {PASSWORD}"


def serve(site: Site, worker: Workers) -> None:
    """Keep the site and the worker up until Ctrl-C."""
    say(f"\n{login_at(site)}\nThe site and the worker stay up until Ctrl-C.")
    try:
        while site.code is None:
            worker.revive()
            time.sleep(1)
    except KeyboardInterrupt:
        return
    raise DemoFailed(f"The site ended. The end of its log:\n{site.log_end()}")
