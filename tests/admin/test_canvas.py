"""Celery's chains, groups and chords are drawn from the headers of their tasks, with what a chord waits for."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.utils import timezone

from django_mq.models import History, Message
from django_mq.results.canvas import MOST, canvas_of
from django_mq.results.models import Chord, StoredResult
from tests.admin.conftest import page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status
CANVAS = "/admin/django_mq/message/canvas/"
ROOT, GROUP = str(uuid4()), str(uuid4())


def headers(task: str, id_: str, parent: str | None = None, group: str | None = None) -> dict[str, Any]:
    given = {"lang": "py", "task": f"shop.tasks.{task}", "id": id_, "root_id": ROOT, "retries": 0}
    return given | {"timelimit": [None, None], "parent_id": parent, "group": group}


class Tasks:
    """Writes tasks of one canvas that have ended, or wait."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def ended(
        self, task: str, id_: str = "", parent: str | None = None, group: str | None = None, **more: Any
    ) -> str:
        id_ = id_ or str(uuid4())
        self._make.history(correlation_id=id_, headers=headers(task, id_, parent, group), **more)
        return id_

    def waiting(self, state: Any, task: str, parent: str | None, group: str | None = None) -> Message:
        id_ = str(uuid4())
        dead = {"dead_reason": "ValueError"} if state == DEAD else {}
        session = {"session": self._make.session(uuid4().hex), "claim": 1} if state == CLAIMED else {}
        given = {"correlation_id": id_, "headers": headers(task, id_, parent, group)}
        return self._make.message(state, **given, **dead, **session)


@pytest.fixture
def tasks(make: Make) -> Tasks:
    return Tasks(make)


def boxes(page: str) -> dict[str, str]:
    """Return the kinds of the boxes by their names."""
    found = re.findall(r'class="mq-step mq-step-(\w+)" transform.*?<title>(.*?):', page, re.DOTALL)
    return {name.strip(): kind for kind, name in found}


def test_a_chord_says_which_members_it_waits_for_and_dead_letters_are_redriven(
    site: str, browse: Client, tasks: Tasks
) -> None:
    tasks.ended("split", ROOT)
    tasks.ended("count", parent=ROOT, group=GROUP)
    tasks.waiting(CLAIMED, "count", ROOT, GROUP)
    dead = tasks.waiting(DEAD, "count", ROOT, GROUP)
    tasks.waiting(READY, "other", ROOT)
    Chord.objects.using(site).create(group_id=GROUP, size=3, counted=1)

    page = browse.get(CANVAS, {"root": ROOT}).content.decode()

    assert boxes(page) == {
        "split": "done",
        "count": "done",
        "count 2": "going",
        "count 3": "bad",
        "other": "waiting",
        "chord": "waiting",
    }
    assert "1 of 3 have ended" in page
    assert "It waits for count 2 (running), count 3 (dead letter)." in page
    assert f'value="{dead.pk}"' in page
    links = browse.get(page_of(dead)).content.decode()
    assert f"{CANVAS}?root={ROOT}" in links


def test_the_body_of_a_chord_comes_after_all_members_and_a_chain_after_each_other(site: str, make: Make) -> None:
    tasks, now = Tasks(make), timezone.now()
    tasks.ended("split", ROOT)
    first = tasks.ended("count", parent=ROOT, group=GROUP)
    tasks.ended("count", parent=ROOT, group=GROUP)
    own = tasks.ended("note", parent=first, published_at=now - timedelta(seconds=9))
    body = tasks.ended("add", parent=first, published_at=now + timedelta(seconds=9))
    after = tasks.ended("mail", parent=body)
    Chord.objects.using(site).create(group_id=GROUP, size=2, counted=2, ended_at=now)

    canvas = canvas_of(ROOT, Message.objects.using(site), History.objects.using(site), using=site)

    before = {task.id: canvas.before(task) for task in canvas.tasks}
    assert (before[own], before[body], before[after]) == (first, GROUP, body)
    assert before[ROOT] == ""
    assert canvas.blocking(GROUP) == []


def test_a_task_that_is_acknowledged_has_failed_by_its_result_or_its_attempts(site: str, make: Make) -> None:
    tasks = Tasks(make)
    told, tried, well, gone = (tasks.ended(name) for name in ("told", "tried", "well", "gone"))
    StoredResult.objects.using(site).create(task_id=told, status="FAILURE")
    StoredResult.objects.using(site).create(task_id=well, status="SUCCESS")
    for task in (tried, well):
        make.attempt(correlation_id=task)
    History.objects.using(site).filter(correlation_id=gone).update(outcome=History.Outcome.CANCELLED)

    canvas = canvas_of(ROOT, None, History.objects.using(site), using=site)

    states = {task.name.rpartition(".")[2]: task.state.value for task in canvas.tasks}
    assert states == {"told": "failed", "tried": "failed", "well": "succeeded", "gone": "removed"}
    assert not canvas.is_cut
    assert len(states) < MOST


@pytest.mark.django_db
def test_users_see_the_tasks_of_tables_that_they_may_view(login_with: Callable[..., Client], make: Make) -> None:
    tasks = Tasks(make)
    tasks.ended("split", ROOT)
    tasks.waiting(DEAD, "count", ROOT)
    client = login_with("view_message")

    page = client.get(CANVAS, {"root": ROOT}).content.decode()

    assert boxes(page) == {"count": "bad"}
    assert 'name="action"' not in page
    for root in ("", "x" * 1000, "\x00'", str(uuid4())):
        assert client.get(CANVAS, {"root": root}).status_code == 200
