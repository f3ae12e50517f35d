"""Delete history that is over its time, now instead of by and by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django_mq.diagnosis.state.overdue import overdue
from django_mq.diagnosis.state.overview import COUNT_LIMIT
from django_mq.management.arguments import add_dry_run, add_json
from django_mq.management.command import MQCommand
from django_mq.management.tables import bounded, plural
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from argparse import ArgumentParser

#: Rows deleted by one transaction.
BATCH = 5000


class Command(MQCommand):
    help = (
        "Delete finished messages and failed attempts older than their queue keeps them, in batches. "
        "Every worker does so on the side; this does all of it at once."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_dry_run(parser, what="how much would go, counted up to 10,000")
        add_json(parser)

    def run(self, alias: str, **options: Any) -> None:
        if options["dry_run"]:
            over = overdue(limit=COUNT_LIMIT, using=alias)
            text = (
                f"{bounded(over['history'], COUNT_LIMIT)} finished messages and "
                f"{bounded(over['attempts'], COUNT_LIMIT)} failed attempts would be deleted."
            )
            self.stdout.write(json.dumps({"would_delete": over}) if options["json"] else text)
            return
        gone = self._prune(alias)
        self.stdout.write(json.dumps({"deleted": gone}) if options["json"] else f"{plural(gone, 'row')} deleted.")

    @staticmethod
    def _prune(alias: str) -> int:
        store, total = shared_store(alias), 0
        while gone := store.prune(BATCH, whole=True):
            total += gone
        return total
