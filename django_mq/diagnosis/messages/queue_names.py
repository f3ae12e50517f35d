"""Names of queues as a user types them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.stores.errors import no_such_queue
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_names(names: Iterable[str], *, using: str) -> None:
    """Raise UnknownQueue for the first name that no queue has."""
    store = shared_store(using)
    for name in names:
        if store.queues.find(name) is None:
            raise no_such_queue(name)
