"""Workers of durable handlers and publishers of their events die at random: each effect is there once."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_mq.api import OutgoingMessage, publish_many
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.models import Message
from tests.proof.account import Account
from tests.proof.notes import SENT, note, noted
from tests.proof.orders import CHARGED, COROUTINES, PACKED, SHIPPED, THREADS
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.proof.conftest import Places

MESSAGES, KILLS = 80, 12
QUEUES = {name: {"backoff_seconds": 0.05} for name in (THREADS, COROUTINES)}


@pytest.mark.once
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_durable_handlers_survive_the_deaths_of_workers_and_publishers(places: Places, kind: str) -> None:
    chance, roles = random.Random(35), ["work_on_orders", "work_on_orders", "pack_orders"]
    with places(kind, QUEUES=QUEUES) as place:
        letters = [OutgoingMessage(queue=name, body=number) for number in range(MESSAGES // 2) for name in QUEUES]
        with transaction.atomic(using=place.alias):
            sent = publish_many(letters, using=place.alias)
            note(SENT, sent, place.alias)
        of_threads = {message for message, letter in zip(sent, letters, strict=True) if letter.queue == THREADS}

        children = [place.start(role) for role in roles]
        for _ in range(KILLS):
            # The instant of a death is all that is left to chance.
            threading.Event().wait(chance.uniform(0.05, 0.5))
            victim = chance.randrange(len(roles))
            children[victim].kill()
            children[victim] = place.start(roles[victim])
        wait_until(lambda: not Message.objects.using(place.alias).exists(), place.story)
        for child in children:
            child.kill()

        account = Account.of(place.alias)
        account.check()
        assert not account.dead
        assert set(account.accepted.values()) == {1}
        for kind_of_note in (CHARGED, SHIPPED, PACKED):
            done = noted(kind_of_note, place.alias)
            assert done.keys() == set(sent), kind_of_note
            # A coroutine has no transaction: what a step does may be done, and its record not be written.
            exact = of_threads if kind_of_note != PACKED else set(sent)
            assert all(done[message] == 1 for message in exact), kind_of_note
        assert not DurableStep.objects.using(place.alias).exists()
        assert DurableEvent.objects.using(place.alias).exclude(emitted_at=None).count() == MESSAGES
