"""The format of numbers, durations, sizes, rates and times, for every page, command and finding.

``PLAIN`` writes them in English, for a terminal. ``LOCAL`` of ``django_mq/diagnosis/language.py`` writes them in
the language of the reader, and ``django_mq/templatetags/mq_formats.py`` gives them to templates.
"""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

#: Counting stops at this number: ``10,000+``.
COUNT_LIMIT = 10_000
#: A rate that is shown as zero in so many places is nearly zero: ``< 0.01``.
RATE_PLACES = 2
#: Units of durations, in seconds.
UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
#: Units of sizes; each has 1,024 of the one before it.
SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
AT_LEAST, OR_MORE = "at least %(age)s", "%(count)s or more"
#: What is translated.
TEXTS: Final = (*(unit for _, unit in UNITS), "ms", AT_LEAST, OR_MORE)
NONE: Final = "-"


def _grouped(digits: str) -> str:
    return f"{Decimal(digits):,f}"


def _in_utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


class Formats(NamedTuple):
    """How a language writes numbers, durations, sizes, rates and times; by default, plain English."""

    #: Returns a number, given as ``1234.5``, as the language writes it.
    localized: Callable[[str], str] = _grouped
    translate: Callable[[str], str] = str
    #: Returns a time.
    time: Callable[[datetime], str] = _in_utc

    def number(self, count: int | None) -> str:
        """Return a whole number: ``10,000``; ``-`` for None."""
        return NONE if count is None else self.localized(str(count))

    def digits(self, value: float | None) -> str:
        """Return about three digits: ``1,235``, ``12.3``, ``0.5``; ``-`` for None."""
        if value is None:
            return NONE
        places = 0 if abs(value) >= 100 else 12
        plain = f"{value if abs(value) >= 100 else _rounded(value):.{places}f}"
        return self.localized(plain.rstrip("0").rstrip(".") if places else plain)

    def duration(self, seconds: float | None) -> str:
        """Return a duration in its two largest units: ``3 d 4 h``, ``2 min 5 s``, ``0 s``; ``-`` for None."""
        if seconds is None:
            return NONE
        left = max(0, int(seconds))
        parts: list[tuple[int, str]] = []
        for size, unit in UNITS:
            amount, left = divmod(left, size)
            if amount or parts:
                parts.append((amount, self.translate(unit)))
        shown = (f"{self.number(amount)} {unit}" for amount, unit in parts[:2] if amount)
        return " ".join(shown) or f"0 {self.translate('s')}"

    def precise(self, seconds: float | None) -> str:
        """Return a duration that may be short: ``3.2 ms``, ``1.25 s``, ``2 min 5 s``; ``-`` for None."""
        rounded = 0.0 if seconds is None else _rounded(max(0.0, seconds))
        if seconds is None or rounded >= 60:
            return self.duration(seconds and max(seconds, rounded))
        unit, of_unit = ("ms", rounded * 1000) if 0 < rounded < 1 else ("s", rounded)
        return f"{self.digits(of_unit)} {self.translate(unit)}"

    def size(self, size: float | None) -> str:
        """Return a number of bytes: ``512 B``, ``58.2 MiB``; ``-`` for None."""
        if size is None:
            return NONE
        value, power = float(size), 0
        while round(abs(value)) >= 1024 and power < len(SIZES) - 1:
            value, power = value / 1024, power + 1
        return f"{self.digits(value)} {SIZES[power]}"

    def rate(self, per_second: float | None) -> str:
        """Return a rate: ``0``, ``< 0.01``, ``0.5``, ``12``; ``-`` for None."""
        if per_second is None:
            return NONE
        least = 10.0**-RATE_PLACES
        return f"< {self.digits(least)}" if 0 < per_second < least else self.digits(per_second)

    def percent(self, share: float | None) -> str:
        """Return a share of one: ``42.5 %``; ``-`` for None."""
        return NONE if share is None else f"{self.digits(100 * share)} %"

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


PLAIN = Formats()
PLURALS = {"is": "are", "belongs": "belong"}


def plural(count: int, noun: str, verb: str = "") -> str:
    """Return ``1 message``, ``2 messages``; with the verb ``is``, ``1 message is``, ``2 messages are``."""
    return _words(PLAIN.number(count), noun, verb, one=count == 1)


def counted(count: int, noun: str, verb: str = "") -> str:
    """Return the same of a count that may have stopped: ``10,000 or more messages are``."""
    return _words(PLAIN.least(count), noun, verb, one=count == 1)


def _words(number: str, noun: str, verb: str, *, one: bool) -> str:
    return f"{number} {noun}{'' if one else 's'} {verb if one else PLURALS.get(verb, verb)}".rstrip()


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
