"""The formats of numbers, durations and times in the language of the reader."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.formats import date_format, get_format, number_format
from django.utils.translation import gettext, gettext_noop

from django_mq.formats import Formats

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

#: The minutes in a format of the time, with the mark before them; not followed by seconds.
MINUTES = re.compile(r"([.:])i(?!\1s)")
#: What ``Formats`` translates.
TEXTS = (
    *(gettext_noop("d"), gettext_noop("h"), gettext_noop("min"), gettext_noop("s"), gettext_noop("ms")),
    *(gettext_noop("at least %(age)s"), gettext_noop("%(count)s or more")),
)


def _localized(digits: str) -> str:
    return number_format(digits, use_l10n=True, force_grouping=True)


def time_text(moment: datetime) -> str:
    """Return a time in the current time zone, as Django's admin shows the fields of a row."""
    return date_format(timezone.localtime(moment), "DATETIME_FORMAT")


def second_text(moment: datetime, zone: tzinfo | None = None) -> str:
    """Return a time as ``time_text`` does, with its seconds, which no format of Django has."""
    return f"{date_format(timezone.localtime(moment, zone), 'DATE_FORMAT')}, {clock_text(moment, zone)}"


def clock_text(moment: datetime, zone: tzinfo | None = None) -> str:
    """Return the time of day, with its seconds."""
    clock = MINUTES.sub(r"\1i\1s", get_format("TIME_FORMAT").replace("P", "g:i a"))
    return date_format(timezone.localtime(moment, zone), clock)


def minute_text(moment: datetime) -> str:
    """Return the time of day at an axis."""
    return date_format(timezone.localtime(moment), "TIME_FORMAT")


def short_time_text(moment: datetime) -> str:
    """Return a time where there is little room."""
    return f"{date_format(timezone.localtime(moment), 'SHORT_DATE_FORMAT')} {minute_text(moment)}"


def day_text(moment: datetime) -> str:
    """Return the day at an axis: ``Sun 29``."""
    return date_format(timezone.localtime(moment), "D j")


LOCAL = Formats(_localized, gettext, time_text)
exact, digits, rate = LOCAL.number, LOCAL.digits, LOCAL.rate
