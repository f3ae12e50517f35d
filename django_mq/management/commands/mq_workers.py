"""Show the worker sessions and their consumers."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from django_mq.diagnosis.fleet import fleet
from django_mq.diagnosis.naming import check_names
from django_mq.management.arguments import add_json
from django_mq.management.command import MQCommand
from django_mq.management.tables import shortened, span, table

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from django_mq.diagnosis.fleet import Worker

HEADINGS = ("ID", "NAME", "KIND", "PID", "VERSION", "QUEUES", "HELD", "CREDIT", "UP", "LAST BEAT", "")


class Command(MQCommand):
    help = "Show the worker sessions as of their last heartbeat: what they take from, hold and may hold."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--queue", metavar="QUEUE", help="Only those that take from it.")
        parser.add_argument("--stale", action="store_true", help="Only those past their deadline.")
        add_json(parser, what="a JSON array, consumers included")

    def run(self, alias: str, **options: Any) -> None:
        workers = [worker for worker in fleet(using=alias) if _is_wanted(worker, **options)]
        if options["queue"] and not workers:
            # A worker may take from a queue that has been deleted; a typing error is said to be one.
            check_names([options["queue"]], using=alias)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(worker) for worker in workers], indent=2))
        elif workers:
            self.stdout.write(table(HEADINGS, map(_row, workers), right=(0, 3, 6, 7)))
        else:
            self.stdout.write("There is no such worker session.")


def _is_wanted(worker: Worker, *, queue: str | None, stale: bool, **_: Any) -> bool:
    return (queue is None or queue in worker.queues) and (worker.stale or not stale)


def _row(worker: Worker) -> tuple[str, ...]:
    return (
        str(worker.id),
        worker.name,
        worker.kind,
        str(worker.pid),
        worker.version,
        shortened(",".join(worker.queues), 40),
        f"{worker.held:,}",
        f"{worker.credit:,}" if worker.credit else "-",
        span(worker.up_seconds),
        span(worker.heartbeat_seconds),
        "stale" if worker.stale else "",
    )
