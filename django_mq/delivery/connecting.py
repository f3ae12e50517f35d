"""Whether this thread has ever connected to a database: if not, it has no connection to put in order.

Looking through Django's connections takes longer than all the rest of a short attempt.
"""

from __future__ import annotations

import threading
from typing import Any

from django.db.backends.signals import connection_created

_this_thread = threading.local()


def has_connected() -> bool:
    """Whether a connection of Django's was ever opened in this thread."""
    return getattr(_this_thread, "connected", False)


def _remember(**_: Any) -> None:
    _this_thread.connected = True


connection_created.connect(_remember, dispatch_uid="django_mq.delivery.connecting")
