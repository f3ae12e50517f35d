"""What is known, and wanted, of the connections that Django opens in a thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from django.db.backends.signals import connection_created

from django_mq.delivery.apart import works_for_event_loop

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

_this_thread = threading.local()


def has_connected() -> bool:
    """Whether a connection of Django's was ever opened in this thread: if not, there is none to put in order.

    Looking through Django's connections takes longer than all the rest of a short attempt.
    """
    return getattr(_this_thread, "connected", False)


def _prepare(connection: BaseDatabaseWrapper, **_: Any) -> None:
    _this_thread.connected = True
    if works_for_event_loop() and not connection.get_autocommit():
        # The transaction of the coroutine's caller is none of this thread's.
        connection.set_autocommit(True)


connection_created.connect(_prepare, dispatch_uid="django_mq.delivery.connecting")
