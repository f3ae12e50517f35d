"""Publishers and workers of batches die at any instant: each callback comes once, and no batch waits for ever."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.delivery.queues import declare
from django_mq.models import History
from django_mq.stores.registry import shared_store
from tests.proof.batched import MEMBERS, TOLD
from tests.proof.notes import SENT, noted
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from typing import Any

    from tests.proof.place import Place

KILLS = 25
PREFORK = ["-P", "prefork", "-c", "2", "-Q", "proof"]
#: Roles with their options, and how many of the kills each gets.
ROLES: dict[str, list[tuple[str, dict[str, Any], int]]] = {
    "native": [("begin_batches", {}, 1), ("handle_batches", {}, 3), ("handle_batches", {}, 3)],
    "prefork": [
        ("begin_batches", {"tasks": True}, 1),
        ("celery", {"options": PREFORK}, 3),
        ("handle_batches", {"members": False}, 2),
    ],
}


@pytest.mark.once
@pytest.mark.parametrize("kind", ROLES)
def test_killed_publishers_and_workers_let_each_batch_end_once(place: Place, kind: str) -> None:
    place.declare(max_attempts=0, history_days=100)
    declare(shared_store(place.alias), TOLD, {"max_attempts": 0, "history_days": 100})
    chance, roles = random.Random(7), ROLES[kind]
    children = [place.start(role, **options) for role, options, _ in roles]
    ended = MessageBatch.objects.using(place.alias).exclude(complete_at=None)
    wait_until(ended.exists, place.story)
    longest = 2.0 if kind == "prefork" else 0.4
    for _ in range(KILLS if kind == "native" else KILLS // 3):
        # The instant of a death is left to chance.
        threading.Event().wait(chance.uniform(0, longest))
        [victim] = chance.choices(range(len(roles)), weights=[weight for *_, weight in roles])
        children[victim].kill()
        role, options, _ = roles[victim]
        children[victim] = place.start(role, **options)
    children[0].kill()
    live = MessageBatch.objects.using(place.alias).filter(state__in=["open", "running"])
    told = History.objects.using(place.alias).filter(queue_name=TOLD, outcome=History.Outcome.ACCEPTED)
    wait_until(lambda: not live.exists() and told.count() >= ended.count(), place.story)

    begun = set(noted(SENT, place.alias))
    found = list(MessageBatch.objects.using(place.alias))
    assert {row.pk for row in found} == begun
    assert len(found) > 5
    callbacks = Counter(headers["x-batch-of"] for headers in told.values_list("headers", flat=True))
    assert callbacks == Counter(str(row.pk) for row in found)
    members = Counter(BatchMember.objects.using(place.alias).values_list("batch", flat=True))
    expected = (0, MEMBERS, 0, 0) if kind == "prefork" else (0, MEMBERS, 1, 0)
    assert {tuple(row.counts) for row in found} == {expected}
    assert set(members.values()) == {sum(expected)}
