"""No page keeps anybody out: contrasts, names, headings and tables, in light and in dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.models import Consumer, Operation, Rollup
from tests.admin.barriers import barriers
from tests.admin.browser import browsing, log_in
from tests.admin.conftest import list_of, page_of
from tests.admin.test_accessibility import times
from tests.admin.test_browser import fill_shop
from tests.admin.test_task_results import a_result

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Page
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

# A browser draws every page, in all its colours.
pytestmark = [pytest.mark.once, pytest.mark.django_db(transaction=True)]
LISTS = (
    "queue",
    "binding",
    "message",
    "workersession",
    "consumer",
    "history",
    "attempt",
    "operation",
    "act",
    "insighthour",
)
#: The page if it is wider than its window, and what has to be scrolled sideways, or ends without a title that has
#: all of it. What is chosen from opens.
CUT_OFF = """() => [document.documentElement, ...document.querySelectorAll("#content *")]
    .filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 1 && !part.title
        && !part.matches("select, pre, textarea, input, details *, svg *")
        && (part === document.documentElement || getComputedStyle(part).overflowX !== "visible"))
    .map((part) => `${part.tagName} ${part.className} ${part.scrollWidth} of ${part.clientWidth}`)"""
#: Actions that ask first, and rows to choose.
ASKING = (
    *(("queue", act) for act in ("pause", "purge", "redrive", "delete_selected")),
    *(("message", act) for act in ("move", "prioritise", "reschedule", "cancel", "release", "stop")),
    *(("workersession", act) for act in ("quiet", "limit", "stop")),
)


def test_no_page_has_a_barrier(live_server: LiveServer, operator: User, make: Make) -> None:
    addresses = places(make)

    with browsing(live_server.url) as page:
        log_in(page)
        found = look_at(page, addresses)
        for model, act in ASKING:
            ask(page, model, act)
            found[f"{model}: {act}"] = barriers(page)

    assert {where: what for where, what in found.items() if what} == {}


def test_what_has_colours_of_its_own_can_be_read_in_the_dark(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    addresses = places(make)[:6]

    with browsing(live_server.url, dark=True) as page:
        log_in(page)
        found = look_at(page, addresses)
        ask(page, "queue", "purge")
        found["queue: purge"] = barriers(page)

    assert {where: what for where, what in found.items() if what} == {}


def test_nothing_is_cut_off_on_a_phone_a_laptop_and_a_wide_screen(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    addresses = places(make)

    with browsing(live_server.url) as page:
        log_in(page)
        found = {}
        for address in addresses:
            page.goto(address)
            for width in (390, 1280, 1920):
                page.set_viewport_size({"width": width, "height": 750})
                found[f"{address} {width}"] = page.evaluate(CUT_OFF)

    assert {where: what for where, what in found.items() if what} == {}


def look_at(page: Page, addresses: list[str]) -> dict[str, list[str]]:
    """Return what keeps people from each of these pages."""
    found = {}
    for address in addresses:
        page.goto(address)
        found[address] = barriers(page)
    return found


def places(make: Make) -> list[str]:
    """Return an address of each kind of page, with something on it; those with colours of their own first."""
    dead = fill_shop(make)
    make.queue("full", max_messages=1)
    make.message(queue=make.queue("quiet"))
    history, attempt = make.history(), make.attempt()
    minute = times()["created_at"]
    Rollup.objects.create(begins_at=minute, queue_name="orders", arrived=60, accepted=3, failed=30)
    operation = Operation.objects.create(
        act="redrive", filters={}, answers={}, user_name="operator", newest=1, expected=8, **times()
    )
    coloured = [list_of("workersession"), list_of("queue"), *map(page_of, (dead, dead.queue))]
    rows = (Consumer.objects.all()[0].session, history, attempt, operation, a_result())
    overview, insights = f"{list_of('queue')}overview/", f"{list_of('insighthour')}?queue=orders"
    looks = [f"{list_of('history')}types/", *(f"{list_of('queue')}{page}/" for page in ("space", "charts"))]
    forms = [f"{list_of(model)}add/" for model in ("queue", "binding", "message")]
    return [overview, insights, *coloured, *map(list_of, LISTS), *map(page_of, rows), *looks, *forms]


def ask(page: Page, model: str, act: str) -> None:
    """Choose an action for the first row of a list, and stay where it asks."""
    page.goto(list_of(model))
    page.locator(".action-select").first.check()
    page.locator("select[name=action]").select_option(act)
    page.locator("button[name=index]").click()
    page.locator("input[name=confirmed]").wait_for(state="attached")
