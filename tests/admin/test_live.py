"""Refreshes: the answer has what has changed, and the page waits while one reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import expect

from django_mq.admin import live
from django_mq.models import Message, Queue
from tests.admin.browser import PATIENCE_MILLISECONDS, browsing, log_in, note_complaints
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from django.test import Client
    from playwright.sync_api import Page
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
OVERVIEW = "/admin/django_mq/queue/overview/"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"


def seen(page: str) -> dict[str, str]:
    """Return the headers of a refresh of a page."""
    versions = re.findall(r'data-mq-parts?="([^"]+)"', page)
    return {live.HAVE: " ".join(versions), live.ROWS: ",".join(re.findall(r'id="mq-row-(\d+)"', page))}


def refreshed(client: Client, address: str, page: str) -> dict[str, Any]:
    answer: dict[str, Any] = client.get(address, headers=seen(page)).json()
    return answer


@pytest.mark.parametrize("pages", ["overview", "queues", "messages", "a message", "a queue"])
def test_a_refresh_of_what_has_not_changed_sends_no_part(
    site: str, browse: Client, make: Make, pages: str
) -> None:
    message = make.message(DEAD, dead_reason="boom")
    make.message()
    address = {
        "overview": OVERVIEW,
        "queues": list_of("queue"),
        "messages": list_of("message"),
        "a message": page_of(message),
        "a queue": page_of(message.queue),
    }[pages]
    page = browse.get(address).content.decode()

    answer = refreshed(browse, address, page)

    assert f'data-layout="{answer["layout"]}"' in page
    # These have a clock of their own.
    assert answer.pop("parts", {}).keys() <= {"mq-charts", "mq-alerts", "now-factor", "tile-waiting"}
    assert answer.keys() <= {"layout", "wait", "ages"}
    assert 'data-mq-part="' in page


def test_a_refresh_sends_what_has_changed_and_the_order(site: str, browse: Client, make: Make) -> None:
    one, other = make.queue("one"), make.queue("other")
    page = browse.get(OVERVIEW).content.decode()
    make.message(queue=other)
    Queue.objects.filter(pk=one.pk).delete()

    answer = refreshed(browse, OVERVIEW, page)

    assert f"queue-row-{other.pk}" in answer["parts"]
    assert answer["orders"]["mq-queue-rows"][1] == [f"queue-row-{other.pk}"]
    assert len(str(answer)) < len(page) / 4


def test_a_list_changes_rows_in_place_counts_new_ones_and_names_those_that_have_gone(
    site: str, browse: Client, make: Make
) -> None:
    rows = [make.message(READY) for _ in range(3)]
    address = f"{list_of('message')}?queue=orders"
    page = browse.get(address).content.decode()
    Message.objects.filter(pk=rows[0].pk).update(state=DEAD)
    Message.objects.filter(pk=rows[1].pk).delete()
    for _ in range(2):
        make.message()

    answer = refreshed(browse, address, page)

    assert list(answer["parts"]) == [f"mq-row-{rows[0].pk}"]
    assert "dead letter" in answer["parts"][f"mq-row-{rows[0].pk}"]
    assert answer["gone"] == [f"mq-row-{rows[1].pk}"]
    assert answer["new"] == "2 new"


def test_a_row_that_new_ones_have_pushed_off_its_page_is_refreshed(site: str, browse: Client, make: Make) -> None:
    row = make.message()
    page = browse.get(list_of("message")).content.decode()
    for _ in range(120):
        make.message()

    answer = refreshed(browse, list_of("message"), page)

    assert answer["new"] == "more than 99 new"
    assert "gone" not in answer
    assert list(answer["ages"]) == [f"mq-row-{row.pk}"]


def test_a_refresh_takes_the_permission_and_the_filters_of_the_page(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    message, other = make.message(), make.message(queue=make.queue("other"))
    headers = {live.HAVE: "", live.ROWS: f"{message.pk},{other.pk}"}
    viewer = login_with("view_message")

    answer = viewer.get(f"{list_of('message')}?queue=orders", headers=headers).json()

    assert list(answer["parts"]) == [f"mq-row-{message.pk}"]
    assert viewer.get(OVERVIEW, headers=headers).status_code == 403
    message.delete()
    assert viewer.get(page_of(message), headers=headers).status_code == 404


@pytest.mark.parametrize("rows", ["", "x,1 OR 1=1,-4", "9" * 30, ",".join(["7"] * 9999)], ids=len)
def test_headers_that_no_page_sends_do_no_harm(site: str, browse: Client, make: Make, rows: str) -> None:
    make.message()

    answer = browse.get(list_of("message"), headers={live.HAVE: "\x00 \u00fc" + "v" * 99, live.ROWS: rows})

    assert answer.status_code == 200
    assert "layout" in answer.json()


@pytest.mark.django_db
@pytest.mark.parametrize("address", [OVERVIEW, list_of("message"), list_of("queue")], ids=["overview", "m", "q"])
def test_a_refresh_takes_as_many_statements_for_many_rows(browse: Client, make: Make, address: str) -> None:
    def statements() -> int:
        page = browse.get(address).content.decode()
        with CaptureQueriesContext(connection) as captured:
            refreshed(browse, address, page)
        return len(captured)

    for number in range(3):
        make.message(READY, make.queue(f"few-{number}"))
    few = statements()
    for number in range(12):
        make.message(READY, make.queue(f"many-{number}"))

    assert statements() <= few


def test_the_parts_of_a_page_are_found_with_what_is_in_them() -> None:
    page = (
        '<ul data-mq-parts id="list"><li id="a" data-mq-part><ul><li>1</li></ul></li>'
        '<li data-mq-part id="b">2</li></ul>'
        '<p data-mq-part>no id</p><b id="c" data-mq-part="given">3</b>'
    )

    parts = {part.id: part for part in live.parts_of(page)}

    assert list(parts) == ["list", "a", "b", "c"]
    assert parts["list"].children == ["a", "b"]
    assert parts["a"].html == '<li id="a" data-mq-part><ul><li>1</li></ul></li>'
    assert parts["c"].version == "given"


@pytest.mark.parametrize(
    ("processor", "seconds", "wait"),
    [(0.004, 0.01, 5), (0.02, 0.02, 5), (0.04, 0.05, 10), (0.01, 0.3, 30), (2, 9, 60)],
)
def test_a_page_that_costs_much_is_asked_for_less_often(processor: float, seconds: float, wait: int) -> None:
    assert live.pause(processor, seconds) == wait


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_a_page_changes_by_parts_and_waits_while_one_reads(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    first = make.message(READY)
    complaints: list[str] = []

    with browsing(live_server.url) as page:
        log_in(page)
        note_complaints(page, complaints)
        page.goto(list_of("message"))
        row, said = page.locator(f"#mq-row-{first.pk}"), page.locator("#mq-refreshed")
        other = another(page, live_server.url)
        publish(other, "orders")

        page.evaluate(LOOK_AGAIN)
        expect(page.locator("#mq-new")).to_have_text("1 new, show")
        expect(page.get_by_role("status")).to_have_text("1 new")
        expect(page.locator("#result_list tbody tr")).to_have_count(1)

        row.get_by_role("checkbox").check()
        page.evaluate(LOOK_AGAIN)
        expect(said).to_contain_text("Waits while rows are ticked")
        row.get_by_role("checkbox").uncheck()
        page.evaluate("getSelection().selectAllChildren(document.getElementById('result_list'))")
        page.evaluate(LOOK_AGAIN)
        expect(said).to_contain_text("Waits while text is selected")
        page.evaluate("getSelection().removeAllRanges()")
        page.locator(".mq-filters summary").first.click()
        page.evaluate(LOOK_AGAIN)
        expect(said).to_contain_text("Waits while a menu is open")
        page.locator(".mq-filters summary").first.click()

        other.goto(page_of(first))
        other.get_by_role("button", name="Cancel and remove").click()
        other.get_by_role("button", name="Cancel and remove").click()
        expect(other.get_by_text("Cancelled: 1 of 1 message.")).to_be_visible()
        page.evaluate("document.activeElement.blur()")
        page.evaluate(LOOK_AGAIN)
        expect(row).to_have_class(re.compile("mq-gone"))
        page.locator("#mq-new").click()
        expect(page.locator("#result_list tbody tr")).to_have_count(1)
        expect(row).to_have_count(0)

    assert complaints == []


def another(page: Page, address: str) -> Page:
    """Return a page of another window, with the same user."""
    browser = page.context.browser
    assert browser
    other = browser.new_page(base_url=address)
    other.set_default_timeout(PATIENCE_MILLISECONDS)
    log_in(other)
    return other


def publish(page: Page, queue: str) -> None:
    page.goto(f"{list_of('message')}add/")
    page.get_by_label("Queue").select_option(queue)
    page.get_by_label("Body", exact=False).last.fill("{}")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published to")).to_be_visible()
