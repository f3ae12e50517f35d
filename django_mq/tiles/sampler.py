"""Notes the figures of the tiles each minute, and deletes old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.rollups import KEPT, MINUTE
from django_mq.models.deletion import delete_first
from django_mq.rollups.series import running_minute
from django_mq.tiles.figures import measured
from django_mq.tiles.models import TileMinute
from django_mq.tiles.past import ROLLED_UP

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def sample(store: Store, _limit: int) -> int:
    """Note the figures of this minute, unless they are known; return whether it was done."""
    if not store.features.durable:
        return 0
    minute, rows = running_minute(store), TileMinute.objects.using(store.alias)
    if rows.filter(pk=minute).exists():
        return 0
    figures = {tile.name: tile.value for tile in measured(store.alias) if tile.value is not None}
    kept = {name: value for name, value in figures.items() if name not in ROLLED_UP}
    # Another worker may note them at the same time.
    rows.bulk_create([TileMinute(begins_at=minute, figures=kept)], ignore_conflicts=True)
    return 1


def prune(store: Store, limit: int) -> int:
    """Delete the minutes that no page shows any more, the oldest first; return how many."""
    if not store.features.durable:
        return 0
    rows = TileMinute.objects.using(store.alias)
    old = rows.filter(begins_at__lt=running_minute(store) - KEPT[MINUTE]).order_by("begins_at")
    return delete_first(old, limit)
