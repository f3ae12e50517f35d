"""One round of maintenance, as a worker does it that is the leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.delivery.consumer.duties import DUTIES, added_duties, run_duties, total_of

if TYPE_CHECKING:
    from collections import Counter

    from django_mq.stores.base import Store


def run_maintenance(store: Store) -> Counter[str]:
    """Run every duty once; return how many rows were changed, by name."""
    return total_of(run_duties(store, (*DUTIES, *added_duties())))
