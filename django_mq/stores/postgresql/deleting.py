"""The deletion of a queue, beside publishers that do not lock its row."""

from __future__ import annotations

from psycopg.errors import ActiveSqlTransaction

from django_mq.errors import StoreError
from django_mq.stores.postgresql.guarding import Guarding

#: How long the deletion of a queue waits for open transactions that wrote messages. Nobody can
#: publish meanwhile; afterwards StoreUnavailable says to try again.
DELETION_WAIT_SECONDS = 2


class Deleting(Guarding):
    """Deletes queues."""

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        with self._transaction():
            self._see_present()
            return super().delete_queue(name, force=force)

    def _see_present(self) -> None:
        # A message that was committed after the snapshot of a transaction would not be counted.
        try:
            self._rows("see_present")
        except StoreError as error:
            if not (error.__cause__ and isinstance(error.__cause__.__cause__, ActiveSqlTransaction)):
                raise
            raise StoreError(
                "A queue cannot be deleted in a transaction that sees an earlier state of the database."
                " Delete it in a transaction that is READ COMMITTED."
            ) from error

    def _wait_for_publishers(self) -> None:
        # A publish does not lock the queue's row, so that publishers never meet there. Deleting
        # a queue is rare and pays instead: without this lock, a message written meanwhile would
        # be left behind in a queue that is no more.
        before = self._rows("limit_waiting", limit=f"{DELETION_WAIT_SECONDS}s")[0][0]
        self._rows("lock_messages")
        self._rows("limit_waiting", limit=before)
