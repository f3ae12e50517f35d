"""A unique task has its key until its run ends, also if it is acknowledged when it begins."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from django_mq.errors import DuplicateMessage
from django_mq.integrations.celery.unique import EARLY, UNIQUE
from django_mq.models import Message
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = [pytest.mark.once, pytest.mark.on("postgresql")]
HEADERS = {UNIQUE: {"key": "a", EARLY: True}}


def is_taken(site: Site) -> bool:
    """Whether a task is refused because of its key; else it is published."""
    try:
        site.send("gated_early", "a", "a", headers=HEADERS)
    except DuplicateMessage:
        return True
    return False


def begun(site: Site) -> int:
    return len(site.diary(phase="begun"))


def test_the_key_is_free_when_the_run_has_ended_or_its_child_was_killed(site: Site) -> None:
    assert not is_taken(site)
    with site.worker("-Q", "celery", "-c", "2") as worker:
        wait_until(lambda: begun(site) == 1, site.story)
        wait_until(lambda: not Message.objects.using(site.alias).exists(), site.story)
        assert is_taken(site)
        os.kill(site.diary(phase="begun")[0]["pid"], signal.SIGKILL)
        wait_until(lambda: not is_taken(site), site.story)
        wait_until(lambda: begun(site) == 2, site.story)
        assert is_taken(site)
        site.open("a")
        wait_until(lambda: not is_taken(site), site.story)
        site.wait_until_settled()
        assert worker.stop() == 0
