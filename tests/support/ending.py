"""End a connection to a server, as its restart or a time-out does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.registry import private_store
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from typing import Any

    from django.db.backends.base.base import BaseDatabaseWrapper

#: Vendor to how the number of a connection is found, and the connection ended by another one.
ENDS = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({}, 30000)"),
    "mysql": ("SELECT connection_id()", "KILL CONNECTION {}"),
}


def end_connection(connection: BaseDatabaseWrapper) -> None:
    """Have the server end an open connection, and wait until it has."""
    number, kill = ENDS[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(number)
        (mine,) = cursor.fetchone()
    other: Any = private_store(connection.alias)
    with other.database.connection.cursor() as cursor:
        cursor.execute(kill.format(mine))
        wait_until(lambda: not connection.is_usable(), "the end of the connection")
    other.close()
