"""The formats of numbers, durations, sizes and times, as filters: ``{% load mq_formats %}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import template

from django_mq.diagnosis.language import LOCAL, second_text, time_text

if TYPE_CHECKING:
    from collections.abc import Callable

register = template.Library()


def _filter(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function of its own: Django counts its arguments, and writes its name into it."""

    def shown(value: Any) -> str:
        return write(value)

    return shown


for name in ("number", "digits", "duration", "precise", "size", "rate", "percent"):
    register.filter(name, _filter(getattr(LOCAL, name)))
register.filter("moment", time_text)
register.filter("second", second_text)
