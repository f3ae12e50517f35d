"""What needs a look stands at the top of the overview in words, and leads to what mends it."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from django_mq.diagnosis.state.alerts import Alert, AlertKind, alerts, is_full
from django_mq.diagnosis.state.fleet import ConsumerStatus, Use, WorkerStatus
from django_mq.diagnosis.state.overview import QueueState
from django_mq.diagnosis.state.sentences import sentence
from django_mq.engine.decisions.limiting_factor import Factor
from django_mq.formats import COUNT_LIMIT
from django_mq.models import Consumer, Message, Rollup
from django_mq.rollups.series import SUMMED_UP, Rates
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

READY, DEAD = Message.Status.READY, Message.Status.DEAD
NUMBERS = ("ready", "scheduled", "retrying", "claimed", "dead", "parked", "consumers")


def state(name: str = "orders", **values: Any) -> QueueState:
    given: dict[str, Any] = dict.fromkeys(NUMBERS, 0)
    given |= {"id": 1, "oldest_ready_seconds": None, "closed": False, "paused": False, "paused_reason": ""}
    given |= {"paused_until": None, "max_messages": None, "overflow": "reject", "held_messages": None}
    given |= {"max_in_flight": None, "max_receivers": None, "grouped": False, "strict": False}
    given["sends_on"] = False
    return QueueState(name=name, **given | {"takes_dead_letters": False, "dead_letters_of_others": 0} | values)


def worker(*queues: str, stale: bool = False, conduct: str = "work", used: int = 0) -> WorkerStatus:
    consumers = tuple(
        ConsumerStatus(
            queue=name,
            handler="",
            priority=0,
            state="",
            credit_used=used,
            credit_limit=10,
            delivered=0,
            selector="",
        )
        for name in queues
    )
    seen = {"id": 1, "name": "w", "kind": "native", "host": "h", "pid": 1, "version": "", "held": 0, "credit": 10}
    known = {"busy": None, "slots": None, "memory_bytes": None, "given_credit": None}
    ages = {"up_seconds": 1.0, "heartbeat_seconds": 1.0}
    return WorkerStatus(queues=queues, stale=stale, conduct=conduct, consumers=consumers, **seen | known | ages)  # type: ignore[arg-type]


WAITS = {"ready": 3, "oldest_ready_seconds": 600.0}
LETTERS = {"takes_dead_letters": True, "dead_letters_of_others": 3}


@pytest.mark.parametrize(
    ("found", "workers", "kinds"),
    [
        (state(), [], []),
        (state(**WAITS), [], [AlertKind.UNSERVED]),
        (state(**WAITS, consumers=1), [worker("orders", conduct="quiet")], [AlertKind.QUIET]),
        (state(**WAITS, consumers=1), [worker("orders", conduct="stop")], [AlertKind.QUIET]),
        (state(**WAITS, consumers=2), [worker("orders", conduct="quiet"), worker("orders")], [AlertKind.LATE]),
        (state(ready=3, oldest_ready_seconds=20.0, consumers=1), [worker("orders")], []),
        (state(scheduled=1, oldest_ready_seconds=600.0), [], [AlertKind.UNSERVED]),
        (state(**WAITS, paused=True), [], [AlertKind.PAUSED]),
        (state(**WAITS, **LETTERS), [], [AlertKind.DEAD]),
        # A message that was published to the dead-letter queue, and waits beside a dead letter.
        (state(**WAITS | LETTERS | {"ready": 4}), [], [AlertKind.UNSERVED, AlertKind.DEAD]),
        (state(**WAITS, takes_dead_letters=True, consumers=1), [worker("orders")], [AlertKind.LATE]),
        # A queue that delays retries needs no worker.
        (state(**WAITS, takes_dead_letters=True, sends_on=True), [], []),
        (state(dead=2), [], [AlertKind.DEAD]),
        (state(retrying=2), [], [AlertKind.RETRYING]),
        (state(), [worker("orders", stale=True)], [AlertKind.STALE]),
        (state(claimed=5, max_messages=5), [], [AlertKind.FULL]),
    ],
)
def test_what_keeps_a_queue_from_delivering_is_named_once(
    found: QueueState, workers: list[WorkerStatus], kinds: list[AlertKind]
) -> None:
    assert [alert.kind for alert in alerts([found], {}, workers)] == kinds


def test_more_failures_than_ends_are_an_alert() -> None:
    for rates, kinds in ((Rates(accepted=1.0, failed=1.0), []), (Rates(failed=0.1), [AlertKind.FAILING])):
        assert [alert.kind for alert in alerts([state()], {"orders": rates}, [])] == kinds


def test_what_delays_messages_stands_first_and_what_is_meant_last() -> None:
    found = alerts(
        [
            state("paused", paused=True),
            state("dead", dead=1),
            state("young", ready=1, oldest_ready_seconds=2.0),
            state("old", ready=1, oldest_ready_seconds=900.0),
            state("older", ready=1, oldest_ready_seconds=1800.0, consumers=1),
        ],
        {},
        [worker("older", used=9), worker("x", stale=True)],
    )

    names = [(alert.kind.value, alert.queue and alert.queue.name, alert.urgent) for alert in found]
    assert names == [
        ("late", "older", True),
        ("unserved", "old", True),
        ("stale", None, True),
        ("dead", "dead", True),
        ("unserved", "young", False),
        ("paused", "paused", False),
    ]
    assert found[0].factor is Factor.SLOTS


@pytest.mark.parametrize(
    ("slots", "credit", "word"),
    [
        (Use(), Use(9, 10), "busy"),
        (Use(), Use(8, 10), "could have more messages in flight"),
        (Use(4, 4), Use(5, 10), "busy"),
        (Use(0, 4), Use(10, 10), "raise their max"),
        (Use(), Use(), "could have more messages in flight"),
    ],
)
def test_workers_are_busy_by_their_slots_and_else_by_their_credit(slots: Use, credit: Use, word: str) -> None:
    alert = Alert(kind=AlertKind.LATE, queue=state(**WAITS, consumers=1), slots=slots, credit=credit)

    assert word in sentence(alert)


@pytest.mark.parametrize(
    ("options", "used", "words"),
    [
        (
            {"max_in_flight": 3, "claimed": 3},
            10,
            "as the queue allows over all workers (3): more workers do",
        ),
        ({"max_in_flight": 3, "claimed": 2}, 10, "raise their max"),
        ({"max_in_flight": 20, "claimed": 19}, 10, "the queue allows over all workers (20)"),
        ({"max_receivers": 1, "consumers": 2}, 9, "The queue lets 1 worker receive at a time: more workers do"),
        ({"max_receivers": 2, "consumers": 2}, 10, "raise their max"),
        ({"grouped": True, "consumers": 2}, 2, "Messages of a group are delivered one at a time"),
        ({"strict": True}, 2, "a message that cannot be delivered holds up those behind it"),
        ({"parked": 2}, 2, "Messages wait for their keys"),
        ({}, 2, "could have more messages in flight"),
    ],
)
def test_the_sentence_of_a_late_queue_names_what_limits_it(options: dict[str, Any], used: int, words: str) -> None:
    alert = Alert(
        kind=AlertKind.LATE,
        queue=state(**WAITS | {"consumers": 1} | options),
        slots=Use(0, 4),
        credit=Use(used, 10),
    )

    assert words in sentence(alert)


@pytest.mark.parametrize(("most", "words"), [(1, "receive at a time: more workers do"), (2, "there are too few")])
def test_busy_workers_are_not_too_few_where_the_queue_lets_no_more_receive(most: int, words: str) -> None:
    late = state(**WAITS, consumers=1, max_receivers=most)

    assert words in sentence(Alert(kind=AlertKind.LATE, queue=late, slots=Use(4, 4)))


def test_a_queue_at_its_own_limit_leads_to_its_limits(site: str, browse: Client, make: Make) -> None:
    old = timezone.now() - timedelta(hours=1)
    late = make.message(READY, make.queue("late", max_in_flight=1), published_at=old).queue
    make.message(Message.Status.CLAIMED, late)
    make.session(queues=["late"])

    page = browse.get(f"{list_of('queue')}overview/").content.decode()

    assert "As many of its messages are in flight as the queue allows" in page
    assert f'href="{page_of(late)}">Its limits' in page


@pytest.mark.parametrize(
    ("failed", "accepted", "kinds"),
    [(0.003, 0.0, []), (0.004, 0.003, []), (2.501, 2.499, []), (0.02, 0.01, [AlertKind.FAILING])],
)
def test_figures_that_look_alike_are_no_alert(failed: float, accepted: float, kinds: list[AlertKind]) -> None:
    found = alerts([state()], {"orders": Rates(failed=failed, accepted=accepted)}, [])

    assert [alert.kind for alert in found] == kinds


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Alert(kind=AlertKind.DEAD, queue=state(dead=COUNT_LIMIT)), "10,000 or more dead letters wait for you."),
        (Alert(kind=AlertKind.DEAD, queue=state(dead=9_999)), "9,999 dead letters wait for you."),
        (
            Alert(kind=AlertKind.DEAD, queue=state(dead=9_000, dead_letters_of_others=9_000)),
            "18,000 dead letters wait for you.",
        ),
        (
            Alert(kind=AlertKind.RETRYING, queue=state(retrying=200, scheduled=1)),
            "200 or more messages failed and wait for their next attempt.",
        ),
        (
            Alert(kind=AlertKind.RETRYING, queue=state(retrying=200)),
            "200 messages failed and wait for their next attempt.",
        ),
        (
            Alert(kind=AlertKind.UNSERVED, queue=state(**WAITS | {"ready": COUNT_LIMIT})),
            "10,000 or more mess",
        ),
        (Alert(kind=AlertKind.UNWANTED, queue=state(**WAITS), unwanted=100), "matches 100 or more messages"),
    ],
)
def test_a_count_that_stopped_at_a_limit_is_no_total(found: Alert, words: str) -> None:
    assert words in sentence(found)


def test_a_queue_is_full_when_it_makes_no_room_by_itself() -> None:
    assert is_full(state(ready=2, scheduled=1, max_messages=3))
    assert not is_full(state(ready=2, max_messages=3))
    assert not is_full(state(ready=3, max_messages=3, overflow="ring"))
    assert is_full(state(retrying=2, scheduled=1, max_messages=3))
    # Where counting stops, publishers know better.
    much = {"ready": COUNT_LIMIT, "max_messages": COUNT_LIMIT * 2}
    assert not is_full(state(**much))
    assert is_full(state(**much, held_messages=COUNT_LIMIT * 2))


def test_the_overview_says_what_needs_a_look_and_leads_there(site: str, browse: Client, make: Make) -> None:
    late = make.message(READY, make.queue("late"), published_at=timezone.now() - timedelta(hours=21)).queue
    paused = make.queue(
        "paused", paused=True, paused_reason="stock take", paused_until=timezone.now() + timedelta(hours=2)
    )
    make.message(DEAD, make.queue("broken"))
    make.message(READY, make.queue("full", max_messages=1, overflow="drop"))
    make.session("gone@host", late=True, queues=["nothing"])

    page = browse.get(f"{list_of('queue')}overview/").content.decode()

    assert "1 message has been ready for 21 h" in page
    assert "No worker takes from it." in page
    assert f'href="{list_of("workersession")}">Workers' in page
    assert f'href="{page_of(late)}" title="late"><bdi>late</bdi>' in page
    assert "The reason: stock take. It resumes by itself at " in page
    assert f'href="{page_of(paused)}">Look at it' in page
    assert 'name="action" value="resume">Resume<' in page
    assert "1 dead letter waits for you." in page
    assert f"{list_of('message')}?queue=broken&amp;state=3" in page
    assert "It is full (limit: 1) and drops new messages." in page
    assert "1 worker has stopped its heartbeat: gone@host." in page
    assert f"{list_of('workersession')}?status=stale" in page


def test_what_is_due_and_nobody_serves_is_an_alert(site: str, browse: Client, make: Make) -> None:
    make.message(Message.Status.SCHEDULED, deliver_at=timezone.now() - timedelta(hours=2, minutes=1))

    page = browse.get(f"{list_of('queue')}overview/").content.decode()

    assert "A scheduled message has been due for 2 h" in page
    assert ">no worker</span>" in page


def test_messages_that_wait_for_their_next_attempt_are_no_urgent_alert(
    site: str, browse: Client, make: Make
) -> None:
    make.message(Message.Status.SCHEDULED, attempts=2, deliver_at=timezone.now() + timedelta(hours=2))
    make.message(Message.Status.SCHEDULED, deliver_at=timezone.now() + timedelta(hours=2))

    page = browse.get(f"{list_of('queue')}overview/").content.decode()

    assert "1 message failed and waits for its next attempt." in page
    assert f'{list_of("message")}?queue=orders&amp;state=retrying">1</a>' in page
    assert f'{list_of("message")}?queue=orders&amp;state=0">1</a>' in page
    assert '<span class="mq-warn">retrying</span>' in page


def test_failures_lead_to_the_attempts(site: str, browse: Client, make: Make) -> None:
    make.queue()
    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=1)
    Rollup.objects.create(begins_at=minute, queue_name=SUMMED_UP)
    Rollup.objects.create(begins_at=minute, queue_name="orders", failed=30)

    page = browse.get(f"{list_of('queue')}overview/").content.decode()

    assert "More attempts fail (0.5/s) than messages are finished (0/s)." in page
    assert f"{list_of('attempt')}?queue=orders" in page


def test_the_json_view_says_the_same(site: str, browse: Client, make: Make) -> None:
    make.message(DEAD)

    (alert,) = browse.get(f"{list_of('queue')}overview.json").json()["alerts"]

    words = {"kind": "dead", "urgent": True, "queue": "orders", "sentence": "1 dead letter waits for you."}
    assert alert == words


def test_where_all_is_well_it_says_so(site: str, browse: Client, make: Make) -> None:
    make.queue()

    assert "Nothing: no queue is late" in browse.get(f"{list_of('queue')}overview/").content.decode()


def test_many_of_a_kind_hide_no_other(site: str, browse: Client, make: Make) -> None:
    for number in range(14):
        make.message(READY, make.queue(f"q{number:02}"), published_at=timezone.now() - timedelta(hours=1))
    make.queue("paused", paused=True)

    response = browse.get(f"{list_of('queue')}overview/")

    found = [(cause.kind, len(cause.alerts), cause.count) for cause in response.context["causes"]]
    assert found == [("unserved", 3, 14), ("paused", 1, 1)]
    assert "11 more" in response.content.decode()


def test_nobody_is_led_where_they_may_not_go(site: str, login_with: Callable[..., Client], make: Make) -> None:
    make.message(DEAD)

    page = login_with("view_queue").get(f"{list_of('queue')}overview/").content.decode()

    assert "1 dead letter waits for you." in page
    assert "Look at them" not in page


def test_a_queue_that_nobody_serves_is_nowhere_said_to_run(site: str, browse: Client, make: Make) -> None:
    unserved = make.message(READY, make.queue("unserved")).queue
    make.message(READY, make.queue("hushed"))
    make.session(queues=["hushed"], conduct="quiet")

    overview = browse.get(f"{list_of('queue')}overview/")

    assert [row.supply.awake for row in overview.context["rows"]] == [0, 0]
    for address in (f"{list_of('queue')}overview/", list_of("queue")):
        page = browse.get(address).content.decode()
        assert ">quiet workers</span>" in page
        assert ">no worker</span>" in page
    assert ">no worker</span>" in browse.get(page_of(unserved)).content.decode()


def test_a_queue_of_messages_that_no_consumer_wants_says_so_everywhere(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    make.message(READY)
    Consumer.objects.create(session=make.session(), queue_name="orders", selector="size > 5")

    for address in (f"{list_of('queue')}overview/", list_of("queue")):
        assert ">not wanted</span>" in browse.get(address).content.decode()
    assert "not wanted" in printed("mq_queues")
    assert "not wanted" in printed("mq_top", "--once")


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_messages_that_no_consumer_wants_are_named() -> None:
    found = alerts([state(**WAITS, consumers=1)], {}, [worker("orders")], {"orders": 2})

    assert [alert.kind for alert in found] == [AlertKind.UNWANTED]
    assert "The selector of no consumer matches 2 messages at its head." in sentence(found[0])
