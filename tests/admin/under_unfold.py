"""The main pages under django-unfold; run by ``test_unfold.py`` in a process of its own.

Unfold takes the place of the admin's site when Django starts, so it cannot come and go with a test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from playwright.sync_api import expect

from django_mq.models import Consumer, Message, Queue
from tests.admin.barriers import barriers
from tests.admin.browser import browsing, picture
from tests.admin.conftest import list_of, page_of, run_action
from tests.admin.test_browser import SCRIPT, fill_shop

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

MODELS = (
    *("queue", "binding", "message", "workersession", "consumer"),
    *("history", "attempt", "operation", "insighthour", "taskresult", "act"),
    *("storedresult", "chord", "resultgroup"),
)

#: By how many pixels a page is wider than the window.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def pages(make: Make) -> dict[str, str]:
    """Return the address of each page, with something on it."""
    dead = fill_shop(make)
    overview = f"{list_of('queue')}overview/"
    rows = {"message page": dead, "queue page": dead.queue, "session page": Consumer.objects.all()[0].session}
    lists = {model: list_of(model) for model in MODELS}
    forms = {"publish": f"{list_of('message')}add/", "new queue": f"{list_of('queue')}add/"}
    forms["types"] = f"{list_of('history')}types/"
    forms |= {name: f"{list_of('queue')}{name}/" for name in ("space", "charts")}
    forms["dead letters"] = f"{list_of('message')}?state=letters"
    return {**lists, **forms, "overview": overview} | {name: page_of(row) for name, row in rows.items()}


@pytest.mark.django_db
def test_the_site_is_unfolds() -> None:
    assert type(admin.site).__module__.startswith("unfold")


@pytest.mark.django_db
def test_every_page_answers(browse: Client, make: Make) -> None:
    for name, address in pages(make).items():
        response = browse.get(address)
        assert response.status_code == 200, name
        assert SCRIPT not in response.content.decode(), name


@pytest.mark.django_db
def test_an_act_is_asked_about_and_done(browse: Client, make: Make) -> None:
    message = make.message()

    asked = run_action(browse, "message", "cancel", [message])
    response = run_action(browse, "message", "cancel", [message], yes="yes")

    assert "gone for good" in asked.content.decode()
    assert "Cancelled: 1 of 1 message." in response.content.decode()
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_operator_works_in_a_browser(live_server: LiveServer, operator: User, make: Make, dark: bool) -> None:
    addresses = pages(make)
    complaints: list[str] = []

    with browsing(live_server.url, dark=dark) as page:
        page.goto("/admin/")
        page.locator("[name=username]").fill("operator")
        page.locator("[name=password]").fill("operator")
        page.locator("[name=password]").press("Enter")
        expect(page.locator("[name=password]")).to_have_count(0)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for name, address in addresses.items():
            page.goto(address)
            expect(page).not_to_have_title("broken in")
            assert page.evaluate(OVERFLOW) <= 0, name
            assert barriers(page) == [], name
            picture(page, f"unfold {name} {'dark' if dark else 'light'}")
        page.goto(addresses["queue page"])
        page.get_by_role("button", name="Pause").click()
        page.get_by_label("Reason").fill("stock take")
        assert barriers(page) == []
        picture(page, f"unfold pause {'dark' if dark else 'light'}")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("“orders” is paused: stock take").first).to_be_visible()

    assert complaints == []
    assert Queue.objects.get(name="orders").paused
