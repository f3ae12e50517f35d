"""An operator's round in a real browser."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from django_mq.models import Consumer, Message, Queue
from tests.admin.browser import browsing, log_in, note_complaints, picture
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Page
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
SCRIPT = "<script>document.title = 'broken in'</script>"
TRACEBACK = """Traceback (most recent call last):
  File "shop/consumers.py", line 31, in send_invoice
    customer = Customer.objects.get(pk=message.body["customer"])
shop.models.Customer.DoesNotExist: Customer matching query does not exist."""


@pytest.mark.django_db(transaction=True)
def test_an_operator_pauses_a_queue_and_retries_a_dead_message(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    dead = make.message(Message.Status.DEAD, type="invoice", body=b'{"order": 7}', dead_reason="ValueError")
    make.attempt(message_id=dead.message_id, traceback="ValueError: <b>no such customer</b>")
    make.message()

    with browsing(live_server.url) as page:
        log_in(page)
        page.get_by_role("link", name="Queues", exact=True).first.click()
        expect(page.locator("td.field-ready")).to_have_text("1")

        pause(page, "orders", reason="stock take")
        expect(page.locator("td.field-pausing")).to_have_text("paused: stock take")

        page.locator("td.field-dead").get_by_role("link").click()
        page.get_by_title(str(dead.message_id)).click()
        expect(page.get_by_text("ValueError: <b>no such customer</b>")).to_be_visible()
        expect(page.get_by_text('"order": 7')).to_be_visible()

        page.get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("“orders” is paused: messages that return to it wait")).to_be_visible()
        page.get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("Redriven: 1 of 1 message.")).to_be_visible()

    dead.refresh_from_db(fields=["state"])
    assert dead.state == Message.Status.READY
    assert Queue.objects.get().paused


def pause(page: Page, name: str, *, reason: str) -> None:
    page.get_by_role("row", name=name).get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option("Pause")
    page.get_by_role("button", name="Go").or_(page.get_by_role("button", name="Run")).click()
    page.get_by_label("Reason").fill(reason)
    picture(page, "pause")
    page.get_by_role("button", name="Pause").click()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "dark", [pytest.param(False, id="light"), pytest.param(True, id="dark", marks=pytest.mark.once)]
)
def test_hostile_rows_run_nothing_on_any_page(
    dark: bool, live_server: LiveServer, operator: User, make: Make
) -> None:
    dead = fill_shop(make)
    pages = {
        name: list_of(name) for name in ("queue", "binding", "message", "workersession", "history", "attempt")
    }
    pages["message page"] = page_of(dead)
    pages["queue page"] = page_of(dead.queue)
    pages["session page"] = page_of(Consumer.objects.all()[0].session)
    complaints: list[str] = []

    with browsing(live_server.url, dark=dark) as page:
        log_in(page)
        note_complaints(page, complaints)
        for name, address in pages.items():
            page.goto(address)
            expect(page).not_to_have_title("broken in")
            picture(page, f"{name} {'dark' if dark else 'light'}")
        page.goto(pages["queue page"])
        page.get_by_role("button", name="Purge").click()
        expect(page.locator("body.delete-confirmation")).to_be_visible()
        picture(page, f"purge {'dark' if dark else 'light'}")

    assert complaints == []


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_every_page_fits_a_usual_screen_and_no_cell_is_a_tower(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    dead = fill_shop(make)
    long_name = "shop.invoices.tasks.send_reminder_to_customer"
    make.message(DEAD, make.queue(long_name), type=long_name, dead_reason="no such customer, " * 12)
    names = ("queue", "binding", "message", "workersession", "consumer", "history", "attempt", "operation", "act")
    addresses = [list_of(name) for name in (*names, "taskresult", "archivebatch", "bulkjob", "insighthour")]
    addresses += [f"{list_of('queue')}charts/?queue=orders"]
    addresses += [f"{list_of('queue')}{page}/" for page in ("overview", "space", "charts", "add")]
    addresses += [f"{list_of('message')}?state=letters", f"{list_of('history')}types/", page_of(dead)]
    addresses += [page_of(dead.queue), page_of(Consumer.objects.all()[0].session)]
    found = {}

    with browsing(live_server.url) as page:
        log_in(page)
        for address in addresses:
            page.goto(address)
            for width in (1280, 1440):
                page.set_viewport_size({"width": width, "height": 800})
                found[address, width] = page.evaluate(MISFITS)

    assert {place: misfits for place, misfits in found.items() if misfits} == {}


#: What is wider than its place, and cells of more than five lines of 16 pixels with their padding.
MISFITS = """() => [
    ...[document.documentElement, ...document.querySelectorAll(
        ".results, .mq-table, .mq-facts, .mq-insights, .form-multiline, .form-multiline > div")]
        .filter((part) => part.scrollWidth > part.clientWidth).map((part) => `${part.className} is too wide`),
    ...[...document.querySelectorAll("#result_list td, .mq-dense td")]
        .filter((cell) => cell.offsetHeight > 100).map((cell) => `${cell.className} is a tower`),
]"""


def fill_shop(make: Make) -> Message:
    """Write a busy shop with a hostile customer; return the message that failed."""
    now = timezone.now()
    letters = make.queue("orders.dead")
    orders = make.queue("orders", dead_letter_queue=letters)
    make.queue(
        "mail", kind="fifo", paused=True, paused_reason="provider is down", paused_until=now + timedelta(hours=2)
    )
    session, late = (
        make.session("celery@shop-1", held=2, kind="celery"),
        make.session("mq_worker@shop-2", late=True),
    )
    for number in range(3):
        Consumer.objects.create(
            session=session, queue_name="orders", credit_limit=20, credit_used=number, handler="shop"
        )
    for number in range(5):
        make.message(
            priority=number, level=number, type="order.created", published_at=now - timedelta(minutes=number)
        )
    make.message(SCHEDULED, deliver_at=now + timedelta(days=2), type="invoice.reminder")
    make.message(CLAIMED, session=session, claimed_at=now, type=SCRIPT)
    make.message(CLAIMED, session=late, claimed_at=now, type="order.created")
    make.message(queue=letters, type="order.created", dead_reason="max attempts")
    make.history(type="order.created", body=b"{}")
    headers = {"tenant": "north", "trace": {"id": SCRIPT}, SCRIPT: SCRIPT}
    dead = make.message(
        DEAD,
        type="invoice",
        attempts=2,
        correlation_id="7d1c0f1e-task",
        headers=headers,
        body=b'{"customer": 7, "lines": ["' + SCRIPT.encode() + b'"], "total": 12.5}',
        dead_reason="Customer.DoesNotExist",
        dead_at=now,
        queue=orders,
    )
    for number in (1, 2):
        make.attempt(
            message_id=dead.message_id,
            number=number,
            worker="celery@shop-1",
            error="Customer.DoesNotExist",
            detail=SCRIPT,
            traceback=TRACEBACK,
        )
    return dead
