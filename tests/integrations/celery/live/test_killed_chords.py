"""Workers die at random while chords run: each body is published once, and nothing is stuck or lost."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from celery import Celery, chord
from celery.exceptions import ChordError
from celery.result import AsyncResult
from django.db.models import Count

from django_mq.models import History
from django_mq.results import waiting
from django_mq.results.abandoned import count_abandoned
from django_mq.results.models import Chord, ChordMember, StoredResult
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = pytest.mark.once
CHORDS, MEMBERS, KILLS = 40, 5, 3


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_each_body_of_forty_chords_is_published_once_over_kills(site: Site, pool: str) -> None:
    url = f"django-mq:///{site.alias}"
    chance = random.Random(pool)
    with Celery("asking", broker=url, backend=url, set_as_current=False) as app:
        bodies = {}
        for number in range(CHORDS):
            members = [app.signature("double", args=(number + each,)) for each in range(MEMBERS)]
            body = app.signature("total", args=(number,))
            bodies[chord(members, app=app)(body).id] = sum(2 * (number + each) for each in range(MEMBERS))
        options = ("-c", "2", "-P", pool)
        for death in range(KILLS):
            with site.worker(*options, name=f"victim {death}", JOURNEY_RESULTS="django-mq://") as worker:
                threading.Event().wait(chance.uniform(0, 0.3))  # the instant of its death is left to chance
                worker.kill()
        with site.worker(*options, name="last", JOURNEY_RESULTS="django-mq://"):
            site.wait_until_settled()
            done = StoredResult.objects.using(site.alias).filter(task_id__in=list(bodies), status="SUCCESS")
            wait_until(lambda: done.count() == CHORDS, site.story)
            site.wait_until_settled()

        found = {each: AsyncResult(each, app=app).result for each in bodies}
    waiting.WAITERS.close()

    assert found == bodies
    published = History.objects.using(site.alias).filter(correlation_id__in=list(bodies))
    counts = published.values_list("correlation_id").annotate(Count("message_id", distinct=True)).order_by()
    assert dict(counts) == dict.fromkeys(bodies, 1)
    chords = Chord.objects.using(site.alias)
    assert chords.filter(counted=MEMBERS, failed=0, carried_until=None).exclude(ended_at=None).count() == CHORDS
    assert not ChordMember.objects.using(site.alias).exists()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_chord_ends_when_a_whole_worker_is_killed_amid_an_early_acknowledged_member(
    site: Site, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"django-mq:///{site.alias}"
    options = ("-c", "2", "-P", pool)
    with Celery("asking", broker=url, backend=url, set_as_current=False) as app:
        members = [app.signature("gated_early", args=("held", "gate")), app.signature("double", args=(1,))]
        result = chord(members, app=app)(app.signature("total", args=("sum",)))
        held = result.parent[0]
        with site.worker(*options, name="victim", JOURNEY_RESULTS="django-mq://") as worker:
            site.wait_for_diary(1, name="held", phase="begun")
            site.wait_until_settled()
            dead = {each.pk for each in site.sessions()}
            worker.kill()
        with site.worker(*options, name="last", JOURNEY_RESULTS="django-mq://"):
            wait_until(lambda: dead.isdisjoint(each.pk for each in site.sessions()), site.story)
        for minutes in (1, 2, 3):  # the last worker may have looked, too
            monkeypatch.setattr(clock, "offset", timedelta(minutes=minutes))
            count_abandoned(shared_store(site.alias), 200)
        app.backend.finish_abandoned(10)

        with pytest.raises(ChordError, match="WorkerLostError"):
            AsyncResult(result.id, app=app).get(timeout=0)
        assert type(AsyncResult(held.id, app=app).result).__name__ == "WorkerLostError"
    waiting.WAITERS.close()
    found = Chord.objects.using(site.alias).get()
    assert (found.size, found.counted, found.failed, found.carried_until) == (2, 2, 1, None)
    assert not site.diary(name="sum")
