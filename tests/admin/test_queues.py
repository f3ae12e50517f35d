"""Queues: their list, their form and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from django_mq.models import Message, Queue
from tests.admin.conftest import list_of, page_of, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django import DjangoAssertNumQueries, Settings

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


def form_data(**changes: Any) -> dict[str, Any]:
    """Return what the form of a new queue posts."""
    data = {
        "name": "orders",
        "kind": "priority",
        "levels": 10,
        "due_order": "due_first",
        "sort_type": "number",
        "max_attempts": 10,
        "backoff_seconds": 1,
        "backoff_multiplier": 2,
        "backoff_cap_seconds": 600,
        "backoff_jitter": 0.1,
        "backoff_ticks_per_second": 0,
        "dead_letter_queue": "",
        "overflow": "reject",
        "wait_seconds": 5,
        "dedup_count": 20000,
        "history_days": 7,
        "grouping": "none",
    }
    return data | changes


def cells(response: Any, name: str) -> dict[str, str]:
    """Return the shown figures of one queue in the list."""
    row = next(queue for queue in response.context["cl"].result_list if queue.name == name)
    admin = response.context["cl"].model_admin
    return {column: str(getattr(admin, column)(row)) for column in admin.list_display[1:]}


def test_the_list_shows_depth_per_state_and_the_age_of_the_oldest_ready_message(
    site: str, browse: Client, make: Make
) -> None:
    make.message(READY, published_at=timezone.now() - timedelta(minutes=5, seconds=2))
    make.message(READY)
    make.message(SCHEDULED, deliver_at=timezone.now() + timedelta(hours=1))
    make.message(DEAD)

    response = browse.get(list_of("queue"))

    shown = cells(response, "orders")
    assert ">2<" in shown["ready"]
    assert ">1<" in shown["scheduled"]
    assert ">1<" in shown["dead"]
    assert shown["claimed"] == "0"
    assert ">5 min" in shown["oldest_ready"]


def test_the_list_takes_as_many_queries_for_ten_queues_as_for_one(
    site: str, browse: Client, make: Make, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    taker = make.queue("dead")
    for number in range(10):
        make.message(queue=make.queue(f"queue {number}", dead_letter_queue=taker))

    # The count and the rows, and one statement for every figure of every queue.
    with django_assert_max_num_queries(4, using=site) if site != "default" else django_assert_max_num_queries(6):
        browse.get(list_of("queue"))


def test_a_count_that_reaches_its_limit_says_so(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("formats", "admin.columns"):
        monkeypatch.setattr(f"django_mq.{user}.COUNT_LIMIT", 2)
    for _ in range(3):
        make.message()

    response = browse.get(list_of("queue"))

    assert ">2+<" in cells(response, "orders")["ready"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("until", "words"),
    [(None, "paused: stock take"), (timedelta(hours=1), "(until "), (timedelta(hours=-1), "running")],
    ids=["until resumed", "for a time", "time is over"],
)
def test_the_list_says_why_a_queue_is_paused(
    browse: Client, make: Make, until: timedelta | None, words: str
) -> None:
    end = until and timezone.now() + until
    make.queue(paused=True, paused_reason="stock take", paused_until=end)

    response = browse.get(list_of("queue"))

    assert words in cells(response, "orders")["pausing"]


def test_a_queue_is_created_and_edited_by_its_form(site: str, browse: Client) -> None:
    browse.post("/admin/django_mq/queue/add/", form_data(levels=3))
    queue = Queue.objects.get(name="orders")

    browse.post(page_of(queue), form_data(levels=3, max_messages=500, backoff_ticks_per_second=1000))

    queue.refresh_from_db()
    assert (queue.levels, queue.max_messages, queue.options.backoff_ticks_per_second) == (3, 500, 1000)
    assert 'value="1000"' in browse.get(page_of(queue)).content.decode()


def test_an_option_without_a_column_reads_alike_where_it_cannot_be_changed(
    site: str, login_with: Callable[..., Client], settings: Settings, make: Make
) -> None:
    settings.LANGUAGE_CODE = "de"

    page = login_with("view_queue").get(page_of(make.queue())).content.decode()

    assert "Takte der Verzögerung je Sekunde" in page
    assert "Artemis hat 1000." in page


def test_the_queues_are_edited_on_their_alias_without_a_router(
    site: str, browse: Client, settings: Settings
) -> None:
    settings.DATABASE_ROUTERS = []

    browse.post("/admin/django_mq/queue/add/", form_data())
    again = browse.post("/admin/django_mq/queue/add/", form_data())

    queue = Queue.objects.using(site).get(name="orders")
    assert "already exists" in str(again.context["errors"])
    assert browse.get(page_of(queue)).status_code == 200
    binding = {"exchange": "shop", "exchange_type": "fanout", "pattern": "", "queue": queue.pk}
    browse.post("/admin/django_mq/binding/add/", binding)
    assert queue.bindings.using(site).count() == 1


def test_selectors_are_declared_one_in_each_line(site: str, browse: Client) -> None:
    lines = ["region = 'eu'", "region = 'us' AND size > 5"]
    refused = browse.post("/admin/django_mq/queue/add/", form_data(selectors="region = "))
    browse.post("/admin/django_mq/queue/add/", form_data(selectors="\r\n".join(lines)))

    assert "Expected a value, found the end at position 8." in refused.content.decode()
    queue = Queue.objects.using(site).get()
    assert queue.selectors == "\n".join(lines)
    assert "<textarea" in browse.get(page_of(queue)).content.decode()


@pytest.mark.django_db
def test_saving_a_form_does_not_undo_a_pause_made_meanwhile(
    browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make.queue()
    full_clean = Queue.full_clean

    def pause_meanwhile(self: Queue, *args: Any, **kwargs: Any) -> None:
        Queue.objects.update(paused=True)
        full_clean(self, *args, **kwargs)

    monkeypatch.setattr(Queue, "full_clean", pause_meanwhile)

    browse.post(page_of(queue), form_data(levels=3))

    queue.refresh_from_db()
    assert queue.paused
    assert queue.levels == 3


@pytest.mark.django_db
def test_a_queue_cannot_be_its_own_dead_letter_queue(browse: Client, make: Make) -> None:
    queue = make.queue()

    response = browse.post(page_of(queue), form_data(dead_letter_queue=queue.pk))

    assert "its own dead-letter queue" in str(response.context["errors"])


@pytest.mark.django_db
def test_dead_letters_cannot_be_sent_in_a_circle(browse: Client, make: Make) -> None:
    queue = make.queue()
    between = make.queue("between", dead_letter_queue=queue)
    last = make.queue("last", dead_letter_queue=between)

    response = browse.post(page_of(queue), form_data(dead_letter_queue=last.pk))

    assert "lead back to this queue" in str(response.context["errors"])


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong",
    [
        *({"levels": 11}, {"levels": 0}, {"backoff_jitter": 2}, {"backoff_cap_seconds": 0.5}, {"name": ""}),
        *({"max_bytes": 0}, {"overflow": "ring"}, {"kind": "last_value"}),
        {"ttl_seconds": 1, "max_ttl_seconds": 2},
    ],
    ids=str,
)
def test_a_value_out_of_range_is_refused(browse: Client, wrong: dict[str, Any]) -> None:
    response = browse.post("/admin/django_mq/queue/add/", form_data(**wrong))

    assert response.context["errors"]
    assert not Queue.objects.exists()


@pytest.mark.django_db
def test_the_name_of_a_queue_stays(browse: Client, make: Make) -> None:
    queue = make.queue()

    browse.post(page_of(queue), form_data(name="renamed"))

    queue.refresh_from_db()
    assert queue.name == "orders"


@pytest.mark.django_db
def test_other_levels_are_said_to_leave_the_messages_where_they_are(browse: Client, make: Make) -> None:
    message = make.message()

    response = browse.post(page_of(message.queue), form_data(levels=3), follow=True)

    assert any("keep their level" in sentence for sentence in said(response))
