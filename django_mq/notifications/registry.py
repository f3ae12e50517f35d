"""The notifier of this process, chosen by the settings."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from django_mq import conf
from django_mq.notifications.local import LocalNotifier

if TYPE_CHECKING:
    from django_mq.notifications.base import Notifier

logger = logging.getLogger("django_mq.notifications")


def notifier() -> Notifier:
    """Return the Redis notifier where ``REDIS_URL`` is set, the local one otherwise. Opens nothing."""
    settings = conf.load()
    return _notifier(
        settings.REDIS_URL,
        settings.REDIS_PREFIX,
        settings.REDIS_TIMEOUT_SECONDS,
        # Renewed at every safety poll; one that is late for four is hung.
        max(4 * settings.SAFETY_POLL_SECONDS, 10.0),
    )


@lru_cache(maxsize=8)
def _notifier(url: str | None, prefix: str, timeout_seconds: float, registration_seconds: float) -> Notifier:
    if not url:
        return LocalNotifier()
    from django_mq.notifications.redis import RedisNotifier  # noqa: PLC0415 - Redis only where it is used

    try:
        return RedisNotifier(
            url, prefix=prefix, timeout_seconds=timeout_seconds, registration_seconds=registration_seconds
        )
    except ValueError:
        # The error may hold a part of a password. A publisher comes here when its message has been written.
        logger.error("The Redis client cannot read an option of REDIS_URL: no hint leaves this process.")  # noqa: TRY400
        return LocalNotifier()
