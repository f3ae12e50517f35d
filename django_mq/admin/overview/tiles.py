"""The tiles at the top of the overview: each with its curve, and beside the same time yesterday."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_mq.admin.overview.charts import HEIGHT, WIDTH, paths, scale_end, usual_end
from django_mq.diagnosis.language import LOCAL
from django_mq.seams.tiles import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.http import HttpRequest

    from django_mq.admin.table import TableAdmin
    from django_mq.seams.tiles import Tile
    from django_mq.tiles.past import TilePast

MINUS: Final = "\N{MINUS SIGN}"
#: The smallest difference to yesterday that is named.
SMALLEST: Final = {Unit.COUNT: 0.01, Unit.SECONDS: 1.0, Unit.RATE: 0.01}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTile:
    """A tile as the page has it: texts, SVG paths, and where it leads."""

    tile: Tile
    past: TilePast
    #: Blank if there is no such page.
    address: str
    line: str
    dots: str
    ghost: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def value(self) -> str:
        return _text(self.tile.value, self.tile)

    @property
    def of(self) -> str:
        """Return of how many; blank if there are none."""
        return LOCAL.number(int(self.tile.of)) if self.tile.of else ""

    @property
    def yesterday(self) -> str:
        """Return the figure at this time yesterday, and the difference, in words."""
        before, now = self.past.yesterday, self.tile.value
        if before is None:
            return _("no figures of yesterday")
        then = _text(before, self.tile)
        if now is None:
            return _("yesterday %(value)s") % {"value": then}
        change = now - before
        if abs(change) < SMALLEST[self.tile.unit]:
            return _("as yesterday")
        words = _text(abs(change), self.tile)
        sign = "+" if change > 0 else MINUS
        return _("yesterday %(value)s (%(change)s)") % {"value": then, "change": f"{sign}{words}"}

    @property
    def summary(self) -> str:
        """Return what the curve shows, for screen readers."""
        known = [value for value in self.past.values if value is not None]
        if not known:
            return _("Last hour: unknown")
        least, most = (_text(end, self.tile) for end in (min(known), max(known)))
        return _("Last hour: %(least)s to %(most)s") % {"least": least, "most": most}


def _text(value: float | None, tile: Tile) -> str:
    if value is None:
        return "-"
    if tile.unit is Unit.SECONDS:
        return LOCAL.age(value, is_exact=not tile.is_least)
    if tile.unit is Unit.RATE:
        return f"{LOCAL.rate(value)}/s"
    return (
        LOCAL.bounded(int(value), more=tile.is_least and value > 0) if value == int(value) else LOCAL.digits(value)
    )


def allowed(admin: TableAdmin, request: HttpRequest, tiles: Iterable[Tile]) -> list[Tile]:
    """Return the tiles of which the user may view the rows."""
    return [tile for tile in tiles if admin.may(request, f"view_{tile.model}")]


def shown(admin: TableAdmin, tiles: Iterable[Tile], pasts: Mapping[str, TilePast]) -> list[ShownTile]:
    return [_shown(admin, tile, pasts[tile.name]) for tile in tiles]


def _shown(admin: TableAdmin, tile: Tile, past: TilePast) -> ShownTile:
    known = [value for value in (*past.values, *past.before) if value is not None]
    top = scale_end(usual_end(known))
    line, dots = paths(past.values, top)
    ghost, _dots = paths(past.before, top)
    return ShownTile(tile=tile, past=past, address=_address(admin, tile), line=line, dots=dots, ghost=ghost)


def _address(admin: TableAdmin, tile: Tile) -> str:
    try:
        address = reverse(f"{admin.admin_site.name}:{admin.opts.app_label}_{tile.model}_{tile.page}")
    except NoReverseMatch:  # a site of the project may leave a table out
        return ""
    return f"{address}?{urlencode(tile.filters)}" if tile.filters else address


def as_object(shown_tile: ShownTile) -> dict[str, Any]:
    """Return a tile for the JSON view."""
    tile, past = shown_tile.tile, shown_tile.past
    return {
        "name": tile.name,
        "title": str(tile.title),
        "value": tile.value,
        "of": tile.of,
        "unit": tile.unit.value,
        "note": str(tile.note),
        "bad": tile.bad,
        **asdict(past),
    }
