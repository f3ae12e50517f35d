"""What has expired is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_mq.models.deletion import delete_first
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
    old = {name: model.objects.using(alias).filter(expires_at__lte=clock.now()) for name, model in TABLES.items()}
    return {name: delete_first(rows.order_by("expires_at"), limit) for name, rows in old.items()}
