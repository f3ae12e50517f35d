"""The page of a queue: what it does now, each figure as plain queries count it, and its settings."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from django_mq import conf
from django_mq.diagnosis.language import LOCAL
from django_mq.limits import concurrency, declared
from django_mq.models import Attempt, Consumer, GroupedFailure, LimitKey, LimitSlot, Message, Queue
from django_mq.rollups.series import recent_rates
from tests.admin.conftest import page_of
from tests.admin.test_alerts import printed
from tests.admin.test_overview import begun, minute
from tests.admin.test_queues import form_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

__all__ = ["begun"]  # a fixture of theirs

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


@pytest.fixture
def limited() -> Iterator[None]:
    """A limit by key of the queue "orders"."""
    concurrency("orders", 2, key="header:tenant", name="tenant")
    yield
    declared.forget("orders")
    conf.remove_extension(declared.NAME)


def fill(make: Make) -> Queue:
    """Write a queue with messages in all states, of which two of the key acme run and three wait for it."""
    queue = make.queue(max_in_flight=8, max_messages=50)
    session = make.session("worker@host", queues=["orders"], busy=1, slots=4)
    Consumer.objects.create(
        session=session, queue_name="orders", handler="shop.take", credit_limit=20, credit_used=2
    )
    for number, (state, times) in enumerate({SCHEDULED: 2, READY: 4, CLAIMED: 2, DEAD: 1, PARKED: 3}.items()):
        for _ in range(times):
            given: dict[str, Any] = {"park_key": "tenant:acme"} if state is PARKED else {}
            given |= {"session": session, "claim": number + 1} if state is CLAIMED else {}
            given |= {"deliver_at": timezone.now() + timedelta(hours=1)} if state is SCHEDULED else {}
            message = make.message(state, queue, type="order.placed", **given)
            if state is CLAIMED:
                place = {"queue_name": "orders", "limit_name": "tenant", "limited_key": "acme"}
                LimitSlot.objects.create(**place, message_row=message.pk, claim=message.claim)
    # The slot of a claim that has ended, and a key that waits for one that runs.
    LimitSlot.objects.create(**place, message_row=message.pk, claim=99)
    LimitKey.objects.create(**place, free_at=0.0, seen_at=0.0, waiting_until=0.0)
    return queue


def fail(make: Make, queue: str, times: int) -> None:
    """Write failures of a queue and of another one in a group."""
    group = make.failure_group(queues={queue: times, "bills": 1}, failures=times + 1)
    for name in [queue] * times + ["bills"]:
        attempt = make.attempt(queue_name=name)
        GroupedFailure.objects.create(attempt_id=attempt.pk, group=group, failed_at=attempt.failed_at)


@pytest.mark.usefixtures("limited")
def test_each_figure_is_what_plain_queries_count(site: str, browse: Client, make: Make) -> None:
    queue = fill(make)
    fail(make, "orders", 2)
    make.failure_group(queues={"bills": 9})
    for ago in range(1, 8):
        minute(ago, arrived=60 * ago, accepted=30, failed=ago)

    now = browse.get(page_of(queue)).context["now"]

    rows = Message.objects.using(site).filter(queue=queue)
    tiles = {tile.name: tile.value for tile in now["tiles"]}
    for state in Message.Status:
        assert tiles[state.name.lower()] == str(rows.filter(state=state).count()), state
    rates = recent_rates(using=site).rates["orders"]
    for name in ("arrived", "accepted", "failed"):
        assert tiles[name] == f"{LOCAL.rate(getattr(rates, name))}/s"
    ready = rows.filter(state=READY).order_by("-level", "place", "pk")
    assert [row.message.pk for row in now["head"]["rows"]] == [*ready.values_list("pk", flat=True)]
    [worker] = now["workers"]["rows"]
    consumer = Consumer.objects.using(site).get()
    assert (worker.credit.used, worker.credit.of) == (consumer.credit_used, consumer.credit_limit)
    assert (worker.handlers, worker.slots.used, worker.slots.of) == ("shop.take", 1, 4)
    [group] = now["failures"]["rows"]
    failed = Attempt.objects.using(site).filter(queue_name="orders").values("pk")
    assert group["number"] == str(GroupedFailure.objects.using(site).filter(attempt_id__in=failed).count())
    gauges = {gauge.name: (gauge.used, gauge.of) for gauge in now["limits"]}
    claimed = str(rows.filter(state=CLAIMED).count())
    assert gauges == {
        "in-flight": (claimed, "8"),
        "slots": ("1", "4"),
        "credit": ("2", "20"),
        "messages": (str(rows.count()), "50"),
        "key-tenant": (claimed, "2"),
    }
    [limit] = [gauge for gauge in now["limits"] if gauge.name == "key-tenant"]
    assert limit.note == "fullest key: acme; keys at the limit: 1; keys that wait: 1"


@pytest.mark.usefixtures("limited")
def test_the_page_says_what_limits_the_queue(site: str, browse: Client, make: Make) -> None:
    queue = fill(make)

    def limits() -> str:
        found: str = browse.get(page_of(queue)).context["now"]["factor"]["sentence"]
        return found

    key = "Limited by the limit “tenant”: 2 of 2 of the key acme run, 3 wait."
    assert limits().startswith(f"{key} 4 messages are ready")
    assert f"orders: {key}" in printed("mq_queues", "orders")
    [found] = json.loads(printed("mq_queues", "orders", "--json"))
    assert found["limited_by"] == "keys"
    Message.objects.using(site).filter(state=READY).delete()
    assert limits() == key
    Message.objects.using(site).filter(state=PARKED).delete()
    assert limits() == "Nothing waits for a worker."
    make.message(READY, queue)
    assert limits().startswith("Nothing limits it")
    queue.max_in_flight = 2
    queue.save(using=site)
    assert limits().startswith("Limited by the most in flight of the queue: 2 of 2")
    Queue.objects.using(site).update(paused=True, paused_reason="stock take")
    assert limits().startswith("The queue is paused. The reason: stock take.")


@pytest.mark.django_db
@pytest.mark.usefixtures("limited")
def test_a_user_sees_the_parts_about_what_the_user_may_view(
    login_with: Callable[..., Client], client: Client, make: Make
) -> None:
    queue = fill(make)
    fail(make, "orders", 2)
    seen = {"head": "now-head", "workers": "now-workers", "failures": "now-failures"}

    least = login_with("view_queue").get(page_of(queue))

    assert [name for name, part in seen.items() if part in least.content.decode()] == []
    shown, _, _settings = least.content.decode().partition('id="settings"')
    assert "acme" not in shown
    assert least.context["now"]["factor"]["sentence"].startswith("Limited by a limit by key: 3 messages wait")
    user = least.wsgi_request.user
    for permission, name in (
        ("view_message", "head"),
        ("view_consumer", "workers"),
        ("view_failuregroup", "failures"),
    ):
        user.user_permissions.set(Permission.objects.filter(codename__in=["view_queue", permission]))
        page = client.get(page_of(queue)).content.decode()
        assert [part for part, id_ in seen.items() if f'id="{id_}"' in page] == [name]


@pytest.mark.django_db
def test_settings_that_differ_are_shown_and_the_others_are_folded(browse: Client, make: Make) -> None:
    queue = make.queue(max_attempts=3, backoff_ticks_per_second=1000)

    page = browse.get(page_of(queue))

    (heading, first), *others = page.context["adminform"].fieldsets
    assert heading == "Settings"
    assert first["fields"] == [("name", "closed"), ("max_attempts",), ("backoff_ticks_per_second",)]
    assert all("collapse" in options["classes"] for _, options in others)
    names = {name for _, options in others for line in options["fields"] for name in line}
    assert names == {*conf.queue_options()} - {"max_attempts", "backoff_ticks_per_second"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"overflow": "ring"}, "overflow"),
        ({"kind": "last_value"}, "last_value_key"),
        ({"ttl_seconds": 1, "max_ttl_seconds": 2}, "ttl_seconds"),
        ({"backoff_cap_seconds": 0.5}, "backoff_cap_seconds"),
        ({"selectors": "region = "}, "selectors"),
        ({"fair_weights": "acme=4"}, "fair_weights"),
        ({"levels": 11}, "levels"),
    ],
    ids=str,
)
def test_an_error_stands_beside_its_field_in_an_open_group(
    browse: Client, make: Make, wrong: dict[str, Any], field: str
) -> None:
    page = browse.post(page_of(make.queue()), form_data(**wrong))

    form = page.context["adminform"].form
    assert [*form.errors] == [field]
    assert "now" not in page.context  # the errors come first
    groups = [options for _, options in page.context["adminform"].fieldsets]
    [group] = [one for one in groups if field in {name for line in one["fields"] for name in line}]
    assert "collapse" not in group.get("classes", ())
    assert [fieldset.is_collapsible for fieldset in page.context["adminform"]].count(False) == 2


@pytest.mark.django_db
def test_users_who_may_not_change_a_queue_see_its_settings_as_text(
    login_with: Callable[..., Client], make: Make
) -> None:
    page = login_with("view_queue").get(page_of(make.queue(max_attempts=3))).content.decode()

    settings = page[page.index('id="settings"') :]
    assert "<input" not in settings.replace('<input type="hidden"', "")
    assert "Maximum attempts" in settings
