"""The pages with a screen reader or without a mouse."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from django_mq.admin.messages.actions import REDRIVE
from django_mq.models import Consumer, Message, Operation, Queue
from tests.admin.browser import ANY_NUMBER, browsing, log_in
from tests.admin.conftest import list_of, page_of, run_action
from tests.admin.test_browser import fill_shop
from tests.admin.test_task_results import a_result

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

FIELDS = {"input", "select", "textarea"}
UNSEEN = {"hidden", "submit", "button"}


class Names(HTMLParser):
    """Which fields, pictures and ids a page has, and what names them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.described: set[str] = set()
        self.fields: list[dict[str, str | None]] = []
        self.nameless: list[str] = []
        self._inside_label = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        self.described.update((given.get("aria-describedby") or "").split())
        if tag == "label":
            self._inside_label += 1
            self.labelled.add(given.get("for") or "")
        if tag in FIELDS and given.get("type") not in UNSEEN and not self._inside_label:
            self.fields.append(given)
        if given.get("role") in {"img", "region"} and not given.get("aria-label"):
            self.nameless.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._inside_label -= tag == "label"

    @property
    def unnamed(self) -> list[dict[str, str | None]]:
        return [
            field
            for field in self.fields
            if field.get("id") not in self.labelled and not {"aria-label", "aria-labelledby", "title"} & set(field)
        ]


@pytest.mark.django_db
def test_every_field_and_picture_has_a_name(browse: Client, make: Make) -> None:
    dead = fill_shop(make)
    addresses = [list_of(name) for name in ("queue", "message", "workersession", "consumer", "history", "attempt")]
    addresses += [f"{list_of('queue')}overview/", f"{list_of('message')}add/", f"{list_of('queue')}add/"]
    addresses += [f"{list_of('queue')}space/", list_of("act"), f"{list_of('message')}?state=letters"]
    addresses += [f"{list_of('history')}types/", list_of("taskresult"), page_of(a_result())]
    addresses += [page_of(dead), page_of(dead.queue), page_of(Consumer.objects.all()[0].session)]
    texts = {address: browse.get(address).content.decode() for address in addresses}
    for name in ("reschedule", "move", "prioritise", "cancel"):
        texts[name] = run_action(browse, "message", name, [dead]).content.decode()
    for name in ("pause", "purge", "delete_selected"):
        texts[name] = run_action(browse, "queue", name, list(Queue.objects.all()[:1])).content.decode()

    for where, text in texts.items():
        names = Names(text)
        assert names.unnamed == [], where
        assert names.nameless == [], where
        assert names.described <= set(names.ids), where
        assert len(names.ids) == len(set(names.ids)), where


@pytest.mark.django_db(transaction=True)
def test_an_operator_pauses_a_queue_with_the_keyboard_alone(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    queue = make.message().queue

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(page_of(queue))
        page.get_by_role("button", name="Pause").focus()
        page.keyboard.press("Enter")
        page.get_by_label("Reason").focus()
        page.keyboard.type("stock take")
        page.keyboard.press("Enter")
        expect(page.get_by_text("“orders” is paused: stock take")).to_be_visible()

    queue.refresh_from_db()
    assert queue.paused


@pytest.mark.once
@pytest.mark.django_db(transaction=True)
def test_the_overview_says_aloud_what_raises_an_alert_and_nothing_else(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    queue = make.message().queue

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(f"{list_of('queue')}overview/")
        expect(page.locator("#mq-live")).to_have_attribute("data-renewed", ANY_NUMBER)
        expect(page.get_by_role("status")).to_have_text("")

        browser = page.context.browser
        assert browser
        other = browser.new_page(base_url=live_server.url)
        log_in(other)
        other.goto(page_of(queue))
        other.get_by_role("button", name="Pause").click()
        other.get_by_label("Reason").fill("stock take")
        other.get_by_role("button", name="Pause").click()
        expect(other.get_by_text("“orders” is paused")).to_be_visible()
        other.close()

        expect(page.get_by_role("status")).to_contain_text("paused orders")


@pytest.mark.django_db(transaction=True)
def test_the_page_of_an_operation_shows_its_progress_and_its_end(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    make.message(Message.Status.DEAD)
    operation = Operation.objects.create(
        act=REDRIVE.name, filters={}, answers={}, user_name="operator", newest=1, expected=8, **times()
    )

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(page_of(operation))
        progress = page.locator(".field-progress")
        expect(progress).to_contain_text("0 of 8 tried")
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("It has stopped.")).to_be_visible()


def times() -> dict[str, object]:
    return {"created_at": timezone.now(), "beat_at": timezone.now()}
