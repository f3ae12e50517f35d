"""A text made to break a page, in every field that takes any text, on every page of a table or of a row."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import TYPE_CHECKING

import pytest
from django.db.models import DateTimeField
from django.urls import reverse

from tests.admin.rows import every_row
from tests.admin.test_permissions import addresses_by_name

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

MARKUP = "<script>alert(1)</script>"
TAGS = "{{ 'interpo'|add:'lated' }}{% load no_such_library %}%s{0}"
#: Turns round what follows it, unless its element is closed off.
BIDI = "\u202e\u2066"
HOSTILE = {
    "markup": f"'\"></td></script>{MARKUP}{TAGS}{BIDI}",
    "one word": "w" * 10_000,
    "spaces": " \t\n" * 20,
}

pytestmark = pytest.mark.django_db


@pytest.mark.on("sqlite", once="postgresql")
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_no_text_breaks_a_page_or_gets_into_its_markup(hostile: str, browse: Client, make: Make) -> None:
    rows = every_row(make, lambda _: hostile)
    found = addresses_by_name(rows)
    found["search"] = f"{reverse('admin:django_mq_message_search')}?q=alert"
    sizes = {}

    for name, address in found.items():
        answer = browse.get(address, follow=True)
        page = answer.content.decode()
        sizes[name] = len(page)
        assert MARKUP not in page or answer["Content-Type"] == "application/json", name
        assert "interpolated" not in page, name

    assert {name: size for name, size in sizes.items() if size > 400_000} == {}


#: A negative duration or age in a cell, as in "-3,599 s", and no part of an id, as in "9b1f-427d-".
NEGATIVE = re.compile(r"(?<!\w)[-\N{MINUS SIGN}]\s?\d[\d,.]*\s?(ms|s|min|h|d|days?)\b")


@pytest.mark.once
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_an_hour_off_makes_no_negative_duration(hours: int, browse: Client, make: Make) -> None:
    """The rows have the times of the database, which differ from the clock of the process that makes pages."""
    rows = every_row(make, str)
    for row in rows.values():
        for field in row._meta.concrete_fields:
            if isinstance(field, DateTimeField) and (time := getattr(row, field.name)):
                setattr(row, field.name, time + timedelta(hours=hours))
        row.save()

    pages = {name: browse.get(at, follow=True).content.decode() for name, at in addresses_by_name(rows).items()}

    shown = {name: re.sub("<[^>]+>", " ", unescape(page)) for name, page in pages.items() if "json" not in name}
    assert {name: found[0] for name, page in shown.items() if (found := NEGATIVE.search(page))} == {}
