"""Spans of time in words short enough for a column."""

from __future__ import annotations

from django.utils.translation import gettext as _


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
