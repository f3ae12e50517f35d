"""Durations and counts as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext_noop

from django_mq.diagnosis.state.overview import COUNT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

#: Units of durations, in seconds.
UNITS = ((86400, gettext_noop("d")), (3600, gettext_noop("h")), (60, gettext_noop("min")), (1, gettext_noop("s")))


class Language(NamedTuple):
    """How to write durations and counts: in plain English, or by the functions of another language."""

    #: Returns a whole number.
    number: Callable[[int], str] = "{:,}".format
    #: Returns a number with about three digits.
    digits: Callable[[float], str] = "{:.3g}".format
    translate: Callable[[str], str] = str

    def duration(self, seconds: float | None) -> str:
        """Return a duration in its two largest units: ``3 d 4 h``, ``2 min 5 s``, ``0 s``; ``-`` for None."""
        if seconds is None:
            return "-"
        left = max(0, int(seconds))
        parts: list[tuple[int, str]] = []
        for size, unit in UNITS:
            amount, left = divmod(left, size)
            if amount or parts:
                parts.append((amount, self.translate(unit)))
        return " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount) or f"0 {self.translate('s')}"

    def precise(self, seconds: float | None) -> str:
        """Return a duration that may be short: ``3.2 ms``, ``1.25 s``, ``2 min 5 s``; ``-`` for None."""
        if seconds is None or seconds >= 60:
            return self.duration(seconds)
        return f"{self.digits(seconds * 1000)} ms" if 0 < seconds < 1 else f"{self.digits(max(0.0, seconds))} s"

    def age(self, seconds: float | None, *, is_exact: bool) -> str:
        """Return how long the oldest message has waited, at least if that is not exact; ``-`` for None."""
        age = self.duration(seconds)
        return age if is_exact or seconds is None else self.translate(AT_LEAST) % {"age": age}

    def bounded(self, count: int, *, more: bool = False) -> str:
        """Return a count: ``10,000+`` if counting stopped there, or earlier (``more``)."""
        return f"{self.number(count)}+" if more or count >= COUNT_LIMIT else self.number(count)

    def least(self, count: int, limit: int = COUNT_LIMIT) -> str:
        """Return a count for a sentence: ``10,000 or more`` if counting stopped at the limit."""
        number = self.number(count)
        return self.translate(OR_MORE) % {"count": number} if count >= limit else number


AT_LEAST, OR_MORE = gettext_noop("at least %(age)s"), gettext_noop("%(count)s or more")
PLAIN = Language()
PLURALS = {"is": "are", "belongs": "belong"}


def plural(count: int, noun: str, verb: str = "") -> str:
    """Return ``1 message``, ``2 messages``; with the verb ``is``, ``1 message is``, ``2 messages are``."""
    return _words(f"{count:,}", noun, verb, one=count == 1)


def counted(count: int, noun: str, verb: str = "") -> str:
    """Return the same of a count that may have stopped: ``10,000 or more messages are``."""
    return _words(PLAIN.least(count), noun, verb, one=count == 1)


def _words(number: str, noun: str, verb: str, *, one: bool) -> str:
    return f"{number} {noun}{'' if one else 's'} {verb if one else PLURALS.get(verb, verb)}".rstrip()
