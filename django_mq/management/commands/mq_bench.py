"""Measure this installation, each figure against a raw limit of the same run."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.db import connections

from django_mq import conf
from django_mq.benchmarks import draining, picking_up, publishing
from django_mq.benchmarks.measuring import QUEUE, Result
from django_mq.delivery.declaring import declare
from django_mq.management.command import MQCommand
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator

    from django_mq.benchmarks.raw import RawTable

#: Amounts of a full and of a quick run.
FULL = {"singles": 1000, "bulk": 20_000, "drain": 20_000, "celery": 20_000, "samples": 200, "backlog": 200_000}
QUICK = {"singles": 200, "bulk": 2000, "drain": 4000, "celery": 4000, "samples": 40, "backlog": 20_000}


class Command(MQCommand):
    help = "Measure publishing, draining and pick-up; prints ratios to raw limits of the same run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", metavar="FILE", help="Write all samples there as well.")
        parser.add_argument("--quick", action="store_true", help="Small amounts: a look, not a measurement.")
        parser.add_argument("--repeats", type=int, default=3, help="Rounds; the median counts.")
        parser.add_argument("--no-celery", action="store_true", help="Leave the Celery workers out.")

    def run(self, alias: str, **options: Any) -> None:
        amounts = QUICK if options["quick"] else FULL
        machine = _machine(alias)
        self.stdout.write(machine)
        self.stdout.write(_line("measure", "figure", "limit of the same run", "ratio", "mark"))
        results = []
        for result in self._measure(alias, amounts, options["repeats"], celery=not options["no_celery"]):
            results.append(result)
            self.stdout.write(_report(result))
        if options["json"]:
            document = {"machine": machine, "results": [result.as_json() for result in results]}
            Path(options["json"]).write_text(json.dumps(document, indent=1), encoding="utf-8")

    def _measure(self, alias: str, amounts: dict[str, int], repeats: int, *, celery: bool) -> Iterator[Result]:
        store = shared_store(alias)
        declare(store, QUEUE)
        raw = _raw_table(alias)
        try:
            bounds = {"singles": amounts["singles"], "bulk": amounts["bulk"]}
            yield from publishing.measure(alias, raw, repeats=repeats, **bounds)
            yield from draining.measure(alias, raw, amount=amounts["drain"], repeats=repeats)
            yield from picking_up.measure(alias, raw, conf.load().REDIS_URL, samples=amounts["samples"])
            if celery:
                yield from _celery(alias, amounts, repeats)
        finally:
            _clear_away(alias, QUEUE)
            if raw is not None:
                raw.drop()


def _clear_away(alias: str, queue: str) -> None:
    store = shared_store(alias)
    # A worker that had to be killed has left claims, and nobody waits for its deadline here.
    held = Message.objects.using(alias).filter(queue__name=queue, state=Message.Status.CLAIMED)
    store.release_held(list(held.values_list("id", flat=True)))
    store.delete_queue(queue, force=True)
    History.objects.using(alias).filter(queue_name=queue).delete()


def _raw_table(alias: str) -> RawTable | None:
    """Return the raw limits where psycopg can set them."""
    if not shared_store(alias).features.has_raw_limits:
        return None
    from django_mq.benchmarks.raw import RawTable  # noqa: PLC0415 - needs psycopg

    return RawTable(connections[alias])


def _celery(alias: str, amounts: dict[str, int], repeats: int) -> Iterator[Result]:
    from django_mq.benchmarks import celery  # noqa: PLC0415 - Celery only where it is measured

    declare(shared_store(alias), celery.QUEUE)
    try:
        yield from celery.measure(
            alias,
            conf.load().REDIS_URL,
            amount=amounts["celery"],
            samples=amounts["samples"],
            backlog=amounts["backlog"],
            repeats=repeats,
        )
    finally:
        _clear_away(alias, celery.QUEUE)


def _machine(alias: str) -> str:
    connection = connections[alias]
    connection.ensure_connection()
    version = ".".join(map(str, connection.get_database_version()))
    redis = "with Redis" if conf.load().REDIS_URL else "without Redis"
    return (
        f"Python {platform.python_version()}, Django {django.__version__}, "
        f"{connection.display_name} {version}{_durability(alias)}, {redis}, {os.cpu_count()} cores"
    )


def _durability(alias: str) -> str:
    """Return what a commit waits for, where the database says it: it decides most of the figures."""
    if not shared_store(alias).features.has_raw_limits:
        return ""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
        fsync, commit = cursor.fetchone()
    return f" (fsync {fsync}, synchronous_commit {commit})"


def _report(result: Result) -> str:
    limit = f"{result.limit:,.1f} {result.limit_name}" if result.limit is not None else "-"
    ratio = f"{result.ratio:.2f}" if result.ratio is not None else "-"
    verdict = "" if result.reached is None else (" reached" if result.reached else " MISSED")
    return _line(result.name, f"{result.value:,.1f} {result.unit}", limit, ratio, f"{result.mark}{verdict}")


def _line(*cells: str) -> str:
    widths = (40, 22, 36, 6)
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return "| " + " | ".join((*padded, *cells[len(widths) :])) + " |"
