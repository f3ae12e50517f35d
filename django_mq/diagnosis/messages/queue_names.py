"""Names of queues as a user types them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.models import Queue
from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The most names that are read.
NAMES = 1000


def names_of_queues(alias: str) -> list[str]:
    """Return the names of the queues, sorted, at most NAMES of them."""
    return list(Queue.objects.using(alias).order_by("name").values_list("name", flat=True)[:NAMES])


def check_names(names: Iterable[str], *, using: str) -> None:
    """Raise UnknownQueue for the first name that no queue has."""
    store = shared_store(using)
    for name in names:
        if store.queues.find(name) is None:
            raise no_such_queue(name)
