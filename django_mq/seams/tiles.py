"""A figure of the first screen of the admin."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django_stubs_ext import StrOrPromise


class Unit(Enum):
    COUNT = ""
    SECONDS = "s"
    RATE = "/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A figure as of now. Workers note it each minute, so that the page can show its past hour and yesterday."""

    #: An identifier, which stands in the rows of its past. Do not change it.
    name: str
    title: StrOrPromise
    #: None: it is not known.
    value: float | None
    unit: Unit = Unit.COUNT
    #: Whether it may be more: counting has stopped.
    is_least: bool = False
    #: Of how many; None: of none.
    of: float | None = None
    #: Some words about it; the page escapes them.
    note: StrOrPromise = ""
    #: Whether it needs a look.
    bad: bool = False
    #: The model of this app of which it is a figure: the tile takes the permission to view it.
    model: str = "queue"
    #: The page of that model to which the tile leads, as the name of its address ends, and what to filter by.
    page: str = "changelist"
    filters: Mapping[str, str] = field(default_factory=dict)
