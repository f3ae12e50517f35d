"""Two operators act on the same messages at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from django.core.management import call_command
from django.db import connections
from django.db.models import Sum

from django_mq.acts.models import Act
from django_mq.acts.operators import of_site
from django_mq.acts.recorder import new_act, recorded
from django_mq.acts.undo import undo
from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.errors import MQError
from django_mq.models import Message
from django_mq.stores.registry import shared_store

TOTAL = 20


def test_two_who_undo_the_same_move_put_each_message_back_once(committed_database: str) -> None:
    alias = committed_database
    for name in ("orders", "mails"):
        declare(shared_store(alias), name)
    for number in range(TOTAL):
        publish("orders", number, using=alias)
    call_command("mq_move", "orders", "mails", "--state", "ready", database=alias)
    moved = Act.objects.using(alias).get()
    both = threading.Barrier(2, timeout=120)

    def put_back(user: str) -> int:
        record = new_act(of_site(user), "act", "undo", about=moved)
        both.wait()
        try:
            with recorded(record, using=alias):
                return undo(moved, record, using=alias).back
        except MQError:
            return 0
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as threads:
        back = list(threads.map(put_back, ("ann", "bob")))

    assert sum(back) == TOTAL
    assert Message.objects.using(alias).filter(queue__name="orders").count() == TOTAL
    undone = Act.objects.using(alias).filter(name="undo")
    assert undone.aggregate(total=Sum("count"))["total"] == TOTAL
