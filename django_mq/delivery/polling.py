"""How often a worker looks although nothing has told it to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from django_mq.notifications.base import Listener
    from django_mq.stores.base import Store

#: Time between two looks at SQLite's change marker, in seconds: the look costs microseconds.
MARKER_SECONDS = 0.02


def poll_seconds(store: Store, listener: Listener | None) -> float:
    """Return the time between two looks: seldom where hints or a change marker tell, often where nothing does."""
    settings = conf.load()
    hears = listener is not None and listener.connected and notifier().reaches_others
    if hears or store.features.notices_changes:
        return settings.SAFETY_POLL_SECONDS
    return settings.POLL_SECONDS
