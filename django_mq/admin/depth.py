"""How deep the queues are: one statement for a whole page, every count stopping at a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.formats import number_format

from django_mq.admin.table import alias
from django_mq.stores.records import Counts
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django_mq.models import Queue

#: Where counting stops: the store walks at most so many index entries for each state of each queue.
LIMIT = 10_000


def measure(queues: Iterable[Queue]) -> dict[str, Counts]:
    """Return the counts of these queues by name."""
    names = [queue.name for queue in queues]
    counted = shared_store(alias()).counts(names, limit=LIMIT) if names else {}
    return {name: counted.get(name, Counts()) for name in names}


def shown(count: int, *, more: bool = False) -> str:
    """Return the count as read by the operator: ``10,000+`` where counting stopped, there or before (more)."""
    return f"{exact(count)}+" if more or count >= LIMIT else exact(count)


def exact(count: int) -> str:
    """Return a number as the reader's language writes it: ``10,000``."""
    return number_format(count, use_l10n=True, force_grouping=True)
