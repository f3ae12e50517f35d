"""Random choices of filters, the same for the same seed."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from django_mq.models import Message, Queue, WorkerSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Most filters of one address.
MOST = 5


def addresses(number: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield so many lists, each with its name and its address, no two of them alike."""
    chance = random.Random(seed)
    lists = [("messages", "message", _of_messages())] * 4
    lists += [("history", "history", _of_history()), ("attempts", "attempt", _of_attempts())]
    seen: set[str] = set()
    while len(seen) < number:
        words, model, filters = chance.choice(lists)
        names = chance.sample(sorted(filters), min(len(filters), chance.randint(1, MOST)))
        query = urlencode({name: chance.choice(filters[name]) for name in names})
        name = f"{words}, {query}"
        if name not in seen:
            seen.add(name)
            yield name, f"{reverse(f'admin:django_mq_{model}_changelist')}?{query}"


def _moments() -> list[str]:
    moments = (timezone.localtime() + timedelta(minutes=minutes) for minutes in (-100_000, -3_000, -60, 60))
    return [moment.strftime("%Y-%m-%dT%H:%M") for moment in moments]


def _queues() -> list[str]:
    return ["empty", "none", *Queue.objects.order_by("name").values_list("name", flat=True)[:4]]


def _of_messages() -> Mapping[str, Sequence[str]]:
    oldest, newest = (
        Message.objects.order_by(order).values_list("message_id", flat=True)[0] for order in ("id", "-id")
    )
    workers = [str(pk) for pk in WorkerSession.objects.values_list("pk", flat=True)[:2]]
    return {
        "state": ["0", "1", "2", "3", "letters"],
        "queue": _queues(),
        "type": ["order.paid", "none"],
        "priority": ["9", "0"],
        "attempts": ["0", "1", "3", "10"],
        "reason": ["ValueError: number 3", "none"],
        "error": ["ValueError", "none"],
        "worker": [*workers, "0"],
        "published": ["hour", "day", "week", "older"],
        "since": _moments(),
        "until": _moments(),
        "due_since": _moments(),
        "due_until": _moments(),
        "q": ["tenant:7", "tenant:none", "id=7", "correlation-0", str(oldest), str(newest), str(newest)[-8:]],
        "order": ["delivery"],
        "p": ["2", "11", "50", "100"],
        "before": ["1000", "500000"],
    }


def _of_history() -> Mapping[str, Sequence[str]]:
    return {
        "outcome__exact": ["1", "2", "5"],
        "queue": _queues(),
        "worker": ["1", "0"],
        "since": _moments(),
        "until": _moments(),
        "q": ["none", "correlation-0"],
        "p": ["2", "100"],
    }


def _of_attempts() -> Mapping[str, Sequence[str]]:
    return {
        "queue": _queues(),
        "error": ["ValueError", "none"],
        "worker": ["worker-1@host", "none"],
        "since": _moments(),
        "until": _moments(),
        "q": ["none", "correlation-0"],
        "p": ["2", "100"],
    }
