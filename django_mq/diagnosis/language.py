"""Numbers, durations and times in the language of the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.template.defaultfilters import floatformat
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext

from django_mq.diagnosis.state.alerts import RATE_PLACES
from django_mq.diagnosis.wording import Language

if TYPE_CHECKING:
    from datetime import datetime


def exact(count: int) -> str:
    """Return a whole number: ``10,000``."""
    return number_format(count, use_l10n=True, force_grouping=True)


def digits(value: float) -> str:
    """Return about three digits."""
    if value >= 100:
        return number_format(f"{value:.0f}", use_l10n=True, force_grouping=True)
    plain = f"{float(f'{value:.3g}'):f}"
    return number_format(plain.rstrip("0").rstrip("."), use_l10n=True)


def time_text(moment: datetime) -> str:
    """Return a time in the current time zone, as Django's admin shows the fields of a row."""
    return date_format(timezone.localtime(moment), "DATETIME_FORMAT")


def rate(per_second: float) -> str:
    """Return a rate: ``0``, ``< 0.01``, ``0.50``, ``12``."""
    smallest = 10.0**-RATE_PLACES
    if 0 < per_second < smallest:
        return f"< {floatformat(smallest, RATE_PLACES)}"
    return str(floatformat(per_second, f"-{RATE_PLACES}g"))


LOCAL = Language(exact, digits, gettext)
