"""Numbers and durations in the language of the reader."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.translation import gettext

from django_mq.diagnosis.wording import Language


def exact(count: int) -> str:
    """Return a whole number: ``10,000``."""
    return number_format(count, use_l10n=True, force_grouping=True)


def digits(value: float) -> str:
    """Return about three digits."""
    if value >= 100:
        return number_format(f"{value:.0f}", use_l10n=True, force_grouping=True)
    plain = f"{float(f'{value:.3g}'):f}"
    return number_format(plain.rstrip("0").rstrip("."), use_l10n=True)


LOCAL = Language(exact, digits, gettext)
