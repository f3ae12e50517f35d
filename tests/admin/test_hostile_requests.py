"""Requests that no page of ours makes: nonsense in addresses and forms, forged ids, no login, no token.

What there is to try is asked of the site, so that a page, a filter or an action added later is tried, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from django_mq.models import Message
from tests.admin.conftest import list_of, page_of, said
from tests.admin.rows import pages
from tests.admin.test_permissions import Case, addresses, every_case, picture, rows
from tests.conftest import ALIASES, hold_queues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.contrib.auth.models import User
    from pytest_django import Settings

    from tests.admin.conftest import Make

__all__ = ["rows"]  # a fixture of theirs

#: No text of a database, more digits than a number has, no time in any time zone.
NONSENSE = ["\x00", "9" * 40, "0001-01-01T00:00+14:00"]
#: What lists take beside their filters.
LISTS = ["q", "p", "o", "e", "all", "order"]
#: What other pages take.
OWN = {
    "insighthour_changelist": ["queue", "days", "format", "of"],
    "queue_overview": ["span", "queue", "part"],
    "queue_overview_json": ["span", "queue"],
    "queue_charts": ["span", "queue"],
    "message_add": ["copy"],
}
DEEP = "[" * 100_000
HEADERS = [
    "\x00",
    "[]",
    '{"a": NaN}',
    '{"a": "\\u0000"}',
    '{"a": "\\ud800"}',
    DEEP,
    '{"a": ' + DEEP,
    '{"a": ' + "1" * 5000 + "}",
]

pytestmark = pytest.mark.django_db


def asked() -> Iterator[tuple[str, str]]:
    """Yield each page that takes parameters, and each of these; of a list, also lookups that Django would take."""
    for model, page in pages().items():
        fields = [f"{page.opts.fields[0].name}__range", f"{page.opts.fields[1].name}__regex"]
        for name in {*LISTS, *fields, *filters_of(page)}:
            yield f"{model}_changelist", name
    for name, parameters in OWN.items():
        yield from ((name, parameter) for parameter in parameters)


def filters_of(page: Any) -> Iterator[str]:
    for each in page.list_filter:
        if isinstance(each, str):
            yield from (each, f"{each}__exact", f"{each}__isnull", f"{each}__in")
        else:
            yield from getattr(each, "names", [getattr(each, "parameter_name", "")])


@pytest.fixture
def strict(settings: Settings) -> str:
    """Where the database takes the least: PostgreSQL refuses characters that others take."""
    return hold_queues(settings, "postgresql")


@pytest.mark.once
@pytest.mark.skipif("postgresql" not in ALIASES, reason="no PostgreSQL here")
@pytest.mark.django_db(databases=["default", "postgresql"])
def test_no_page_fails_over_nonsense_in_its_address(strict: str, browse: Client, make: Make) -> None:
    make.message()

    answers = {
        (name, parameter, value): browse.get(reverse(f"admin:django_mq_{name}"), {parameter: value}).status_code
        for name, parameter in asked()
        for value in NONSENSE
    }

    assert {case: code for case, code in answers.items() if code >= 500} == {}


@pytest.mark.parametrize("value", ["9" * 40, "-1", "abc", "٣", "_00", "_5F", "1e5"])
def test_no_page_fails_over_the_id_of_no_row(value: str, browse: Client, rows: dict[str, Any]) -> None:
    before = picture()
    asked = [
        page_of(row, page).replace(f"/{row.pk}/", f"/{value}/")
        for row in rows.values()
        for page in ("change", "delete", "history")
    ]

    codes = {
        code
        for address in asked
        for code in (browse.get(address).status_code, browse.post(address, {"yes": "yes"}).status_code)
    }

    assert codes <= {200, 302, 403, 404}
    assert picture() == before


@every_case
def test_an_act_on_the_id_of_no_row_changes_nothing(case: Case, browse: Client, make: Make) -> None:
    case.row(make)
    make.queue("elsewhere")
    before = picture()

    for forged in ("9" * 40, "abc", "\x00", "-1", "", "99999999"):
        data = {"action": case.name, "_selected_action": [forged], "confirmed": "yes", **case.answers}
        assert browse.post(list_of(case.model), data).status_code in {200, 302}

    assert picture() == before


@every_case
def test_an_act_takes_a_token_of_the_page_and_a_post(
    case: Case, operator: User, browse: Client, make: Make
) -> None:
    row = case.row(make)
    make.queue("elsewhere")
    before = picture()
    data = {
        "action": case.name,
        "_selected_action": row.pk,
        "confirmed": "yes",
        "select_across": "1",
        **case.answers,
    }
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)

    refused = strict.post(list_of(case.model), data)
    asked = browse.get(list_of(case.model), data, follow=True)

    assert (refused.status_code, asked.status_code) == (403, 200)
    assert picture() == before
    assert LogEntry.objects.count() == 0


def test_who_is_not_logged_in_is_sent_to_log_in(client: Client, rows: dict[str, Any]) -> None:
    before = picture()
    found = addresses(rows)

    answers = [
        answer for address in found for answer in (client.get(address), client.post(address, {"yes": "yes"}))
    ]

    assert {(answer.status_code, answer.headers["Location"].partition("?")[0]) for answer in answers} == {
        (302, reverse("admin:login"))
    }
    assert picture() == before


@pytest.mark.parametrize(
    "name", ["group_key", "type__startswith", "queue__name", "body__regex", "headers__a", "foo"]
)
def test_an_address_filters_by_the_filters_alone(name: str, browse: Client, make: Make) -> None:
    rows = [make.message(), make.message()]
    data = {"action": "cancel", "_selected_action": [rows[0].pk], "select_across": "1", "confirmed": "yes"}

    posted = browse.post(f"{list_of('message')}?{name}=b", data, follow=True)

    # Django sees to lookups that lead to other tables.
    assert posted.status_code in {200, 400}
    assert posted.status_code == 400 or "cannot be filtered by" in said(posted)[0]
    assert Message.objects.count() == 2


@pytest.mark.parametrize("headers", HEADERS, ids=range(len(HEADERS)))
def test_headers_that_cannot_be_stored_or_shown_are_a_mistake_in_the_form(
    headers: str, site: str, browse: Client, make: Make
) -> None:
    make.queue()
    given = {"queue": "orders", "kind": "application/json", "body": "{}", "headers": headers, "priority": 4}

    response = browse.post(f"{list_of('message')}add/", given)

    if response.status_code == 200:
        assert response.context["form"].errors
        assert not Message.objects.exists()
    else:
        assert browse.get(page_of(Message.objects.get())).status_code == 200


@pytest.mark.parametrize("name", ["queue_overview_json", "insighthour_changelist"])
def test_figures_are_kept_by_no_cache_and_guessed_to_be_nothing_else(name: str, browse: Client) -> None:
    answer = browse.get(reverse(f"admin:django_mq_{name}"), {"format": "json"})

    assert answer.headers["Content-Type"] == "application/json"
    assert "no-store" in answer.headers["Cache-Control"]
    assert "private" in answer.headers["Cache-Control"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
