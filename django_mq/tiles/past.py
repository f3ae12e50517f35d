"""The past of each tile: the last hour, and the same hour yesterday, minute by minute.

What the rollups have is read there; the rest is what workers have noted. Three statements.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Final

from django.db.models import Q

from django_mq.engine.rollups import HOUR, MINUTE
from django_mq.rollups.series import RECENT_MINUTES, SPANS, running_minute, series
from django_mq.stores.registry import shared_store
from django_mq.tiles.models import TileMinute

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django_mq.rollups.series import Series
    from django_mq.seams.tiles import Tile

DAY: Final = timedelta(days=1)
MINUTES: Final = HOUR // MINUTE
#: The figures that the rollups have, by the names of the tiles.
ROLLED_UP: Final = {"throughput": "accepted", "failures": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePast:
    """A figure minute by minute; None where it is not known."""

    values: Sequence[float | None]
    #: The same hour yesterday.
    before: Sequence[float | None]
    #: The figure at this time yesterday.
    yesterday: float | None


def pasts(tiles: Iterable[Tile], hour: Series | None = None, *, using: str) -> dict[str, TilePast]:
    """Return the past of each tile by its name. ``hour`` is the last hour of all queues, if the caller has it."""
    hour = hour or series(SPANS["hour"], using=using)
    before = series(SPANS["hour"], until=hour.end - DAY, using=using)
    noted = _noted(running_minute(shared_store(using)), using)
    return {tile.name: _rolled_up(tile, hour, before) or _sampled(tile, *noted) for tile in tiles}


def _rolled_up(tile: Tile, hour: Series, before: Series) -> TilePast | None:
    figure = ROLLED_UP.get(tile.name)
    if figure is None:
        return None
    values, earlier = ([getattr(point, figure) for point in past.points] for past in (hour, before))
    # As the tile: the mean of the newest minutes that are known.
    newest = [value for value in earlier[-2 * RECENT_MINUTES :] if value is not None][-RECENT_MINUTES:]
    return TilePast(values=values, before=earlier, yesterday=fmean(newest) if newest else None)


def _sampled(tile: Tile, values: Sequence[dict[str, float]], before: Sequence[dict[str, float]]) -> TilePast:
    now, earlier = ([figures.get(tile.name) for figures in each] for each in (values, before))
    newest = [value for value in earlier[-RECENT_MINUTES:] if value is not None]
    return TilePast(values=[*now[1:], tile.value], before=earlier, yesterday=newest[-1] if newest else None)


def _noted(now: datetime, using: str) -> list[list[dict[str, float]]]:
    """Return the figures of each minute of the last hour, and of the same hour yesterday."""
    ends = (now, now - DAY)
    wanted = Q()
    for end in ends:
        wanted |= Q(begins_at__gt=end - HOUR, begins_at__lte=end)
    found = dict(TileMinute.objects.using(using).filter(wanted).order_by().values_list("begins_at", "figures"))
    return [[found.get(end - MINUTE * ago, {}) for ago in reversed(range(MINUTES))] for end in ends]
