"""Delete old history now."""

from __future__ import annotations

from typing import Any

from django_mq.diagnosis.state.overdue import overdue
from django_mq.formats import COUNT_LIMIT, PLAIN, plural
from django_mq.management.command import MQCommand
from django_mq.stores.registry import shared_store

#: The maximum number of rows that one transaction deletes.
BATCH = 5000


class Command(MQCommand):
    help = (
        "Delete all finished messages and failed attempts that are older than their queue keeps them, in "
        "batches. Every worker does this little by little."
    )
    dry_run = "how many rows would be deleted, counted up to 10,000"

    def run(self, alias: str, **options: Any) -> None:
        if options["dry_run"]:
            over = overdue(limit=COUNT_LIMIT, using=alias)
            history, attempts = (PLAIN.bounded(over[name]) for name in ("history", "attempts"))
            text = f"{history} finished messages and {attempts} failed attempts would be deleted."
            self.answer({"would_delete": over}, text)
            return
        store, deleted = shared_store(alias), 0
        while chunk := store.retention.prune(BATCH, whole=True):
            deleted += chunk
        self.answer({"deleted": deleted}, f"{plural(deleted, 'row')} deleted.")
