"""How often a worker looks although nothing has told it to."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    from django_mq.notifications.base import Listener
    from django_mq.stores.base import Store

#: Time between two looks at SQLite's change marker, in seconds: the look costs microseconds.
MARKER_SECONDS = 0.02
#: A session is renewed so often before its deadline.
RENEWALS = 2.25


def poll_seconds(store: Store, listener: Listener | None) -> float:
    """Return the time between two looks: seldom where hints or a change marker tell, often where nothing does."""
    settings = conf.load()
    hears = listener is not None and listener.connected and notifier().reaches_others
    if not hears and not store.features.notices_changes:
        return settings.POLL_SECONDS
    if store.features.looks_when_renewed and settings.SAFETY_POLL_SECONDS * RENEWALS >= settings.SESSION_SECONDS:
        # The keeper looks in time (``Session.looked_at``); this is for when it cannot.
        return max(settings.SAFETY_POLL_SECONDS, settings.SESSION_SECONDS)
    return settings.SAFETY_POLL_SECONDS


class Polls:
    """When a driver's next look is due; jitter keeps a fleet from looking in step."""

    def __init__(self) -> None:
        self._polled_at = time.monotonic()
        self._spread = 1.0

    def due(self, every_seconds: float, looked_at: float = 0.0) -> bool:
        """Whether to look now; if so, the time until the next look begins."""
        if self.seconds(every_seconds, looked_at) > 0:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        """Begin the time until the next look anew: there has been one."""
        self._polled_at = time.monotonic()
        self._spread = random.uniform(0.8, 1.2)  # noqa: S311 - not a secret

    def seconds(self, every_seconds: float, looked_at: float = 0.0) -> float:
        """Return how long until the next look; another thread has made one at ``looked_at`` (monotonic)."""
        since = max(self._polled_at, looked_at)
        return max(0.0, since + every_seconds * self._spread - time.monotonic())
