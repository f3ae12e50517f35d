"""What has expired is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.results.models import Chord, ChordMember, ResultGroup, StoredResult
from django_mq.stores.clock import clock

if TYPE_CHECKING:
    from django_mq.stores.base import Store

TABLES: dict[str, Any] = {"results": StoredResult, "groups": ResultGroup, "members": ChordMember, "chords": Chord}


def prune(store: Store, limit: int) -> dict[str, int]:
    """Delete rows that have expired, of each table ``limit`` at most; return how many."""
    return prune_in(store.alias, limit) if store.features.durable else {}


def prune_in(alias: str, limit: int) -> dict[str, int]:
    """Delete rows of a database that have expired."""
    deleted = {}
    for name, model in TABLES.items():
        rows = model.objects.using(alias).filter(expires_at__lte=clock.now())
        # By their keys: MariaDB deletes no rows that a subquery with a limit chooses.
        keys = list(rows.order_by("expires_at").values_list("pk", flat=True)[:limit])
        if keys:
            model.objects.using(alias).filter(pk__in=keys).delete()
        deleted[name] = len(keys)
    return deleted
