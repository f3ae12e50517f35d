"""What to search for: headers and arguments that the newest messages carry, with some of their values."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from django.db.models.functions import Length

from django_mq.diagnosis.arguments import LARGEST_BYTES
from django_mq.diagnosis.downloading import read
from django_mq.diagnosis.masking import HIDDEN
from django_mq.diagnosis.readable import as_object
from django_mq.diagnosis.terms import ARGUMENT, HEADER
from django_mq.models import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.records import Browsed

#: Newest messages that are looked into.
SAMPLE = 200
#: Values suggested of one name, suggestions in all, and how long one may be.
VALUES = 5
MOST = 200
LONGEST = 100


def suggestions(*, using: str) -> list[str]:
    """Return terms that each find a message: ``tenant:acme`` for a header, ``order=17`` for an argument."""
    rows = Message.objects.using(using)
    newest = list(rows.order_by("-pk").values_list("pk", flat=True)[:SAMPLE])
    small = rows.filter(pk__in=newest).annotate(size=Length("body")).filter(size__lte=LARGEST_BYTES)
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for message in read(list(small.values_list("pk", flat=True)), using):
        for name, term in set(_terms(message)):
            found[name][term] += 1
    return [term for name in sorted(found) for term, _ in found[name].most_common(VALUES)][:MOST]


def _terms(message: Browsed) -> Iterator[tuple[str, str]]:
    """Yield what would find the message, each under its name."""
    try:
        seen = as_object(message)
        if isinstance(seen["headers"], dict):
            for name, value in seen["headers"].items():
                # Databases write other values as text in other ways.
                if isinstance(value, str) or type(value) is int:
                    yield from _term(name, ":", value)
        for name, value in _arguments(seen.get("body")):
            yield from _term(name, "=", value)
    except RecursionError:
        return


def _arguments(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what stands under keys, at any depth."""
    if isinstance(value, dict):
        yield from value.items()
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _arguments(item)


def _term(name: str, sign: str, value: Any) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, dict | list) or value == HIDDEN:
        return
    text = value if isinstance(value, str) else json.dumps(value)
    term = f"{name}{sign}{text}"
    read_as = ARGUMENT.fullmatch(term) or HEADER.fullmatch(term)
    if len(term) <= LONGEST and term.isprintable() and read_as and read_as.groups() == (name, text.rstrip()):
        yield f"{name}{sign}", term
