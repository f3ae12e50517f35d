"""A time that somebody wrote down: one rule for command lines and files of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_mq.delivery.validation import aware
from django_mq.errors import InvalidMessage

if TYPE_CHECKING:
    from datetime import datetime


def read_time(text: str, name: str) -> datetime:
    """Return the time in UTC; without an offset it is in the site's time zone, as in the forms of the admin.

    A time that has passed is as good as any: it means at once. Raises InvalidMessage, which names ``name``.
    """
    try:
        time = parse_datetime(text)
    except ValueError as error:
        raise InvalidMessage(f"{name} {text!r} is no time: {error}.") from None
    if time is None:
        raise InvalidMessage(f"{name} {text!r} is no time; write it as 2031-01-31T09:00+01:00.")
    return aware(timezone.make_aware(time) if timezone.is_naive(time) else time, name)
