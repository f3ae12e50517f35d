"""Messages of Celery tasks, wherever they lie: a worker without Celery neither runs them nor judges them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_mq.delivery.codecs import decode_headers
from django_mq.errors import CorruptMessage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from django_mq.stores.records import Claimed

TASK = "task"
#: Headers that Celery's second protocol gives to every task. Other publishers may use one or two of the names.
TASK_HEADERS = frozenset({"lang", TASK, "retries", "timelimit"})
#: A worker that cannot run a task leaves it to others for as long as the task is old, within these bounds.
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)


def is_task(headers: Mapping[str, Any]) -> bool:
    """Return whether headers are those of a Celery task, its id aside."""
    return headers.keys() >= TASK_HEADERS


def carries_task(claimed: Claimed) -> bool:
    """Return whether a message is a Celery task's; False for one whose headers cannot be read."""
    if f'"{TASK}"' not in (claimed.headers or ""):
        return False  # nearly every native message: its headers need not be decoded here
    try:
        return is_task(decode_headers(claimed.headers))
    except CorruptMessage:
        return False


def pause_seconds(claimed: Claimed, now: datetime) -> float:
    """Return for how long to leave a task to other workers: twice as long each time, so that many cost little."""
    age = now - claimed.published_at
    return min(max(age, SHORTEST_PAUSE), LONGEST_PAUSE).total_seconds()
