"""Values that several pages show, and bounded counts of queues."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mq.admin.table import alias
from django_mq.diagnosis.language import LOCAL, exact, time_text
from django_mq.formats import COUNT_LIMIT
from django_mq.models import Message
from django_mq.stores.records import Counts
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django_stubs_ext import StrOrPromise

    from django_mq.models import Queue

#: Characters that a cell of a list has room for.
SHORT = 40
#: The age, in seconds, that is shown without seconds.
WITHOUT_SECONDS = 600
#: Where a name may break: after a mark, and before a capital letter.
BREAK = re.compile(r"(?<=\w[._/:@-])(?=\w)|(?<=[a-z])(?=[A-Z])")


def short_id(message_id: UUID) -> str:
    """Return the end of an id, with the whole id on hover. All ids of one moment begin alike."""
    return format_html('<span class="mq-id" title="{}">…{}</span>', message_id, message_id.hex[-8:])


def ago_column(field: str, label: StrOrPromise) -> Any:
    """Return a column with the age of the time in this field."""
    time_of = attrgetter(field)

    @admin.display(description=label)
    def column(_page: Any, row: Any) -> str:
        return ago(time_of(row))

    return column


@admin.display(description=gettext_lazy("message"))
def id_column(_page: Any, row: Any) -> str:
    return short_id(row.message_id)


def ago(moment: datetime) -> str:
    """Return the age of a time, or how far ahead it is, with the time on hover.

    From ten minutes on, it has no seconds: a list has little room, and would change all the time.
    """
    seconds = (datetime.now(UTC) - moment).total_seconds()
    words = _("%(time)s ago") if seconds >= 0 else _("in %(time)s")
    distance = abs(seconds)
    if distance >= WITHOUT_SECONDS:
        distance -= distance % 60
    shown_words = words % {"time": LOCAL.duration(distance)}
    return format_html('<span class="mq-ago" title="{}">{}</span>', time_text(moment), shown_words)


def clip(text: str) -> str:
    """Return a text that may be long, cut by the page after three lines, with the whole text on hover."""
    words = breakable(text)
    return words if len(text) <= SHORT else format_html('<span class="mq-clip" title="{}">{}</span>', text, words)


def breakable(text: str) -> str:
    """Return a text whose long names break where a reader expects it."""
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in BREAK.split(text)))


def name_column(field: str, label: StrOrPromise) -> Any:
    """Return a column with the name in this field."""

    @admin.display(description=label, ordering=field, empty_value="-")
    def column(_page: Any, row: Any) -> str | None:
        return clip(str(getattr(row, field))) or None

    return column


def yes_no_column(field: str, label: StrOrPromise) -> Any:
    """Return a column that says yes or no: Django shows "no" as a red cross, also where it is good."""

    @admin.display(description=label)
    def column(_page: Any, row: Any) -> str:
        value = getattr(row, field)
        return "-" if value is None else _("yes") if value else _("no")

    return column


def attempts(failed: int, most: int) -> str:
    """Return how many attempts failed, of how many if there is a limit: ``3 of 10 attempts``, ``1 attempt``."""
    if not most:
        return ngettext("%(failed)s attempt", "%(failed)s attempts", failed) % {"failed": failed}
    words = ngettext("%(failed)s of %(most)s attempt", "%(failed)s of %(most)s attempts", most)
    return words % {"failed": failed, "most": most}


def state_name(state: int) -> str:
    """Return the name of a state, as every page has it."""
    return _("dead letter") if state == Message.Status.DEAD else str(Message.Status(state).label)


def measure(queues: Iterable[Queue]) -> dict[str, Counts]:
    names = [queue.name for queue in queues]
    counted = shared_store(alias()).queues.counts(names, limit=COUNT_LIMIT) if names else {}
    return {name: counted.get(name, Counts()) for name in names}


def share(used: int, most: int) -> str:
    """Return how much is in use, of how much: ``3 / 1,000``; 0 is no limit."""
    return f"{exact(used)} / {exact(most) if most else _('no limit')}"
