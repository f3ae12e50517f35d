"""The work of an operator, from the overview to the cure: with the keyboard alone, and without scripts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from django_mq.models import Message, Queue
from tests.admin.browser import ANY_NUMBER, PATIENCE_MILLISECONDS, browsing, log_in
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from playwright.sync_api import Page
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

READY, DEAD = Message.Status.READY, Message.Status.DEAD
OVERVIEW = "/admin/django_mq/queue/overview/"
#: More than any page has to be tabbed through.
MOST_TABS = 200
FOCUSED = "document.activeElement.textContent.trim() || document.activeElement.value || ''"
OUTLINE = "getComputedStyle(document.activeElement).outlineStyle"
LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
COUNT_QUESTIONS = """
    window.asked = 0;
    const ask = window.fetch;
    window.fetch = (...what) => { window.asked += 1; return ask(...what); };
"""
HIDE = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})"


@pytest.mark.django_db(transaction=True)
def test_a_dead_letter_is_found_understood_and_mended_with_the_keyboard_alone(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    dead = make.message(DEAD, dead_reason="no such customer")
    make.attempt(message_id=dead.message_id, traceback="shop/consumers.py, line 31")

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(OVERVIEW)
        page.get_by_role("button", name="Freeze the page").click()
        page.locator("body").focus()
        press_at(page, "Look at them (orders)")
        page.wait_for_url("**/message/?queue=orders&state=3")
        press_at(page, f"…{dead.message_id.hex[-8:]}")
        page.wait_for_url(f"**/message/{dead.message_id}/?**")
        expect(page.get_by_text("shop/consumers.py, line 31")).to_be_visible()
        press_at(page, "Redrive")
        expect(page.get_by_text("Redriven: 1 of 1 message.")).to_be_visible()

    dead.refresh_from_db(fields=["state"])
    assert dead.state == READY


def press_at(page: Page, words: str) -> None:
    """Go on with Tab until these words have the focus, see that they show it, and press Enter."""
    page.wait_for_load_state("load")
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == words:
            assert page.evaluate(OUTLINE) != "none"
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"Nothing that says {words!r} can be reached by Tab.")


@pytest.mark.django_db(transaction=True)
def test_an_operator_without_scripts_sees_everything_and_can_do_everything(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    dead = make.message(DEAD)
    make.message(queue=make.queue("late"))
    make.session("native@shop-1")

    with browsing(live_server.url) as scripted:
        browser = scripted.context.browser
        assert browser
        page = browser.new_page(base_url=live_server.url, java_script_enabled=False)
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        log_in(page)
        page.goto(OVERVIEW)
        expect(page.get_by_text("1 dead letter waits for you.")).to_be_visible()
        expect(page.locator("#mq-pause")).to_be_hidden()

        page.goto(page_of(dead))
        page.get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("Redriven: 1 of 1 message.")).to_be_visible()

        choose(page, "message", "cancel")
        page.get_by_role("button", name="Cancel and remove").click()
        expect(page.get_by_text("Cancelled: 1 of 1 message.")).to_be_visible()

        choose(page, "queue", "pause")
        page.get_by_label("Reason").fill("stock take")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("“late” is paused: stock take")).to_be_visible()

        choose(page, "workersession", "quiet")
        page.get_by_role("button", name="Stop taking work").click()
        expect(page.locator(".field-status")).to_have_text("alive, takes no new work")

    assert Queue.objects.get(name="late").paused


def choose(page: Page, model: str, act: str) -> None:
    """Choose an action for the first row of a list."""
    page.goto(list_of(model))
    page.locator(".action-select").first.check()
    page.locator("select[name=action]").select_option(act)
    page.get_by_role("button", name="Go").or_(page.get_by_role("button", name="Run")).click()


@pytest.mark.django_db(transaction=True)
def test_the_overview_says_when_its_figures_are_old_and_goes_on_when_it_can(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    make.message()

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(OVERVIEW)
        said, bar = page.locator("#mq-refreshed"), page.locator("#mq-live")
        page.route("**/overview/", lambda route: route.fulfill(status=500))
        page.evaluate(LOOK_AGAIN)
        expect(said).to_have_text(
            re.compile("The server does not answer. This is the state of .*; next try in 10 s")
        )
        expect(page.get_by_role("status")).to_contain_text("The server does not answer")

        page.unroute("**/overview/")
        page.evaluate(LOOK_AGAIN)
        expect(said).to_contain_text("As of")
        expect(bar).to_have_attribute("data-renewed", ANY_NUMBER)

        page.context.clear_cookies()
        page.evaluate(LOOK_AGAIN)
        expect(said).to_contain_text("You are logged out: reload the page to log in. This is the state of")
        expect(page.get_by_role("row", name="orders")).to_be_visible()


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_a_hidden_overview_asks_for_nothing(live_server: LiveServer, operator: User, make: Make) -> None:
    make.queue()

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(OVERVIEW)
        page.evaluate(COUNT_QUESTIONS)
        hidden = page.evaluate(f"() => {{ {HIDE}; const before = asked; {LOOK_AGAIN}; return asked - before; }}")
        seen = page.evaluate(
            f"() => {{ delete document.hidden; const before = asked; {LOOK_AGAIN}; return asked - before; }}"
        )

    assert (hidden, seen) == (0, 1)


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_it_is_heard_that_a_queue_has_become_full(live_server: LiveServer, operator: User, make: Make) -> None:
    queue = make.queue("tiny", max_messages=1)

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(OVERVIEW)
        publish(page, live_server.url, queue.name)
        page.evaluate(LOOK_AGAIN)
        expect(page.get_by_role("status")).to_contain_text("full tiny")


def publish(page: Page, address: str, queue: str) -> None:
    """Publish a message by hand, in another window."""
    browser = page.context.browser
    assert browser
    other = browser.new_page(base_url=address)
    other.set_default_timeout(PATIENCE_MILLISECONDS)
    log_in(other)
    other.goto(f"{list_of('message')}add/")
    other.get_by_label("Queue").select_option(queue)
    other.get_by_label("Body", exact=False).last.fill("{}")
    other.get_by_role("button", name="Publish").click()
    expect(other.get_by_text("Published to “tiny”")).to_be_visible()
    other.close()
