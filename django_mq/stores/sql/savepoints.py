"""Savepoints within a transaction of any connection of a store."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django_mq.errors import TransactionLost
from django_mq.stores.connections import translating

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.sql.database import Database


@contextmanager
def savepoint(database: Database) -> Iterator[None]:
    """Undo what the block has written if it raises; the transaction that is open goes on.

    Raises TransactionLost, instead of the error of the block, if the transaction is undone as a whole.

    A nested ``transaction`` on a private connection is a part of the open one, without a savepoint: that would
    cost each claim two round trips.
    """
    # MariaDB forgets a savepoint when an inner one has its name.
    name = f"django_mq_{database.savepoints}"
    with database.alone(), translating(database.connection):
        database.execute(f"SAVEPOINT {name}")
        database.savepoints += 1
        try:
            yield
        except BaseException as error:
            try:
                database.execute(f"ROLLBACK TO SAVEPOINT {name}")
            except Exception:  # noqa: BLE001 - the first error is the one to report
                raise TransactionLost(f"The transaction is lost: {error}") from error
            raise
        finally:
            database.savepoints -= 1
        database.execute(f"RELEASE SAVEPOINT {name}")
