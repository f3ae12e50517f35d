"""A worker dies while it runs a member of a chord. ``tests.proof.pieces`` kills workers at random instants."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from celery import Celery, chord
from celery.exceptions import ChordError
from celery.result import AsyncResult

from django_mq.results import waiting
from django_mq.results.abandoned import count_abandoned
from django_mq.results.models import Chord
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = pytest.mark.once


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
