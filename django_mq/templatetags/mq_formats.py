"""The formats of numbers, durations, sizes and times, as filters: ``{% load mq_formats %}``."""

from __future__ import annotations

from functools import partial

from django import template

from django_mq.diagnosis.language import LOCAL, second_text, time_text

register = template.Library()
for name in ("number", "digits", "duration", "precise", "size", "rate", "percent"):
    # A partial, because Django writes the name of a filter into it.
    register.filter(name, partial(getattr(LOCAL, name)))
register.filter("moment", time_text)
register.filter("second", second_text)
