"""Forgets the connections of workers that are gone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django_mq.bridges.models import BridgeLink
from django_mq.models.times import UTCNow

if TYPE_CHECKING:
    from django_mq.stores.base import Store

#: For so long after a worker was last seen, the row of its connection is kept: the error of a worker that was
#: killed can be read.
KEPT: Final = timedelta(hours=1)


def forget_gone(store: Store, limit: int) -> int:
    """Delete the rows of connections that were not seen for an hour; return how many."""
    if not store.features.durable:
        return 0
    links = BridgeLink.objects.using(store.alias)
    gone = [*links.filter(seen_at__lt=UTCNow() - KEPT).values_list("pk", flat=True)[:limit]]
    return links.filter(pk__in=gone).delete()[0] if gone else 0
