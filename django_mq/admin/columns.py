"""Values that several pages show alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext as _

from django_mq.admin.durations import duration

if TYPE_CHECKING:
    from uuid import UUID


def short_id(message_id: UUID) -> str:
    """Return the end of an id, the whole of it on hover: it begins with the time, alike for neighbours."""
    return format_html('<span class="mq-id" title="{}">…{}</span>', message_id, message_id.hex[-8:])


def time_text(moment: datetime) -> str:
    """Return a time in the reader's zone."""
    return date_format(timezone.localtime(moment), "SHORT_DATETIME_FORMAT")


def ago(moment: datetime) -> str:
    """Return how long ago it was, the time itself on hover."""
    words = _("%(time)s ago") % {"time": duration((datetime.now(UTC) - moment).total_seconds())}
    return format_html('<span class="mq-ago" title="{}">{}</span>', time_text(moment), words)
