"""Values that several pages show alike, and the counts of queues, every one stopping at a limit."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_mq.admin.table import alias
from django_mq.stores.records import Counts
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django_stubs_ext import StrOrPromise

    from django_mq.models import Queue

#: Where counting stops: the store walks at most so many index entries for each state of each queue.
COUNTED = 10_000


def short_id(message_id: UUID) -> str:
    """Return the end of an id, the whole of it on hover: it begins with the time, alike for neighbours."""
    return format_html('<span class="mq-id" title="{}">…{}</span>', message_id, message_id.hex[-8:])


def time_text(moment: datetime) -> str:
    """Return a time in the reader's zone."""
    return date_format(timezone.localtime(moment), "SHORT_DATETIME_FORMAT")


def ago_column(field: str, label: StrOrPromise) -> Any:
    """Return a column of an admin: how long ago the time in this field of a row was."""
    time_of = attrgetter(field)

    @admin.display(description=label)
    def column(_page: Any, row: Any) -> str:
        return ago(time_of(row))

    return column


@admin.display(description=gettext_lazy("message"))
def id_column(_page: Any, row: Any) -> str:
    """Show the end of a row's message id."""
    return short_id(row.message_id)


def ago(moment: datetime) -> str:
    """Return how long ago it was, the time itself on hover."""
    words = _("%(time)s ago") % {"time": duration((datetime.now(UTC) - moment).total_seconds())}
    return format_html('<span class="mq-ago" title="{}">{}</span>', time_text(moment), words)


def duration(seconds: float) -> str:
    """Return the span in its two largest units: ``3 d 4 h``, ``2 min 5 s``, ``0 s``."""
    left = max(0, int(seconds))
    parts: list[tuple[int, str]] = []
    for size, unit in ((86400, _("d")), (3600, _("h")), (60, _("min")), (1, _("s"))):
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append((amount, unit))
    shown = [f"{amount} {unit}" for amount, unit in parts[:2] if amount]
    return " ".join(shown) or f"0 {_('s')}"


def measure(queues: Iterable[Queue]) -> dict[str, Counts]:
    """Return the counts of these queues by name."""
    names = [queue.name for queue in queues]
    counted = shared_store(alias()).counts(names, limit=COUNTED) if names else {}
    return {name: counted.get(name, Counts()) for name in names}


def shown(count: int, *, more: bool = False) -> str:
    """Return the count as read by the operator: ``10,000+`` where counting stopped, there or before (more)."""
    return f"{exact(count)}+" if more or count >= COUNTED else exact(count)


def exact(count: int) -> str:
    """Return a number as the reader's language writes it: ``10,000``."""
    return number_format(count, use_l10n=True, force_grouping=True)
