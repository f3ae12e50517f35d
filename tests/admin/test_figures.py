"""Figures of lists, of what runs and of failure groups equal plain counts over rows that chance has written.

The overview has ``test_recount.py``, and charts have ``test_charts.py``.
"""

from __future__ import annotations

import random
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.utils import timezone

from django_mq.admin.failures.admin import curves_of
from django_mq.diagnosis.state.running import running_now
from django_mq.failures.groups import group_new
from django_mq.models import FailureGroup, History, Message
from django_mq.stores.registry import shared_store
from tests.admin.conftest import list_of
from tests.admin.test_running import runs

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

TYPES = ("invoice", "report", "")
MESSAGES = "FROM django_mq_message m JOIN django_mq_queue q ON q.id = m.queue_id WHERE"
#: The list, its filters, and the statement that counts the same.
LISTS: list[tuple[str, dict[str, Any], str]] = [
    ("message", {}, "FROM django_mq_message"),
    *(("message", {"state": state.value}, f"{MESSAGES} m.state = {state.value}") for state in Message.Status),
    ("message", {"state": "letters"}, f"{MESSAGES} (m.state = 3 OR m.state = 1 AND m.dead_reason <> '')"),
    ("message", {"queue": "orders", "state": 1}, f"{MESSAGES} q.name = 'orders' AND m.state = 1"),
    ("message", {"type": "invoice", "priority": 7}, f"{MESSAGES} m.type = 'invoice' AND m.priority = 7"),
    *(
        ("history", {"outcome__exact": n}, f"FROM django_mq_history WHERE outcome = {n}")
        for n in History.Outcome.values
    ),
    ("history", {"queue": "mail"}, "FROM django_mq_history WHERE queue_name = 'mail'"),
    ("attempt", {"queue": "mail"}, "FROM django_mq_attempt WHERE queue_name = 'mail'"),
]


def fill(make: Make, chance: random.Random) -> None:
    """Write messages in every state, finished ones and failed attempts."""
    mail = make.queue("mail")
    queues = [mail, make.queue("orders", dead_letter_queue=mail)]
    for _ in range(60):
        values: dict[str, Any] = {"type": chance.choice(TYPES), "priority": chance.choice((4, 7))}
        queue = chance.choice(queues)
        values["dead_reason"] = chance.choice(("", "boom")) if queue is mail else ""
        make.message(chance.choice(list(Message.Status)), queue, **values)
        make.history(queue_name=chance.choice(queues).name, outcome=chance.choice(History.Outcome.values))
        age = timedelta(minutes=chance.randrange(20 * 60))
        error = chance.choice(("KeyError", "ValueError"))
        make.attempt(queue_name=chance.choice(queues).name, error=error, failed_at=timezone.now() - age)


def test_a_list_counts_as_sql_does(site: str, browse: Client, make: Make) -> None:
    fill(make, random.Random(7))
    shown, counted = {}, {}

    for model, filters, statement in LISTS:
        named = f"{model} {filters}"
        shown[named] = browse.get(list_of(model), filters).context["cl"].result_count
        with connections[site].cursor() as cursor:
            cursor.execute(f"SELECT count(*) {statement}")
            counted[named] = cursor.fetchone()[0]

    assert shown == counted
    assert min(counted.values()) > 0


def test_usual_is_the_nearest_rank_of_the_finished_runs(site: str, make: Make) -> None:
    chance, begin = random.Random(8), timezone.now() - timedelta(hours=2)
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(90):
        key = chance.choice(("orders", "mail")), chance.choice(("report", "import"))
        seconds, outcome = chance.randrange(1, 500) / 4, chance.choice((1, 1, 1, 3))
        end = begin + timedelta(seconds=seconds)
        row = {"ready_at": begin, "claimed_at": begin, "finished_at": end, "outcome": outcome}
        make.history(queue_name=key[0], type=key[1], **row)
        if outcome == History.Outcome.ACCEPTED:
            times.setdefault(key, []).append(seconds)
    for queue in (make.queue("orders"), make.queue("mail")):
        for kind in ("report", "import"):
            runs(make, 700.0, of=kind, queue=queue)

    found = {(one.queue, one.type): one.usual for one in running_now(using=site)}

    expected = {
        key: (len(each), *(sorted(each)[ceil(len(each) * part) - 1] for part in (0.5, 0.95)))
        for key, each in times.items()
    }
    assert found == expected


@pytest.mark.django_db
def test_a_curve_of_failures_has_the_attempts_of_each_step(make: Make, browse: Client) -> None:
    fill(make, random.Random(9))
    group_new(shared_store("default"), 500)
    statement = "SELECT failed_at FROM django_mq_attempt WHERE error = %s AND failed_at >= %s"
    last = timezone.now()

    for group in FailureGroup.objects.all():
        curve = curves_of([group.pk])[group.pk]
        with connections["default"].cursor() as cursor:
            cursor.execute(statement, [group.error, last - timedelta(days=1)])
            assert sum(curve) == group.failures == len(cursor.fetchall())
    rows = browse.get(list_of("failuregroup")).context["cl"].result_list
    assert {row.error: sum(row.curve) for row in rows} == {
        group.error: group.failures for group in FailureGroup.objects.all()
    }
