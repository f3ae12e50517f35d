"""mq_maintenance: once, or until it is told to stop."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from django_mq.api import publish
from django_mq.delivery.queues import declare
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from tests.commands.conftest import Run, Shop

pytestmark = pytest.mark.on("sqlite")


def test_maintenance_says_what_it_did(committed_database: str, run: Run) -> None:
    declare(shared_store(committed_database), "here")
    publish("here", ttl=0)

    printed = run("mq_maintenance", "--json")

    assert json.loads(printed)["expired"] == 1
    assert History.objects.using(committed_database).get().outcome == History.Outcome.EXPIRED
    assert "0 expired" in run("mq_maintenance")


def test_in_a_loop_it_goes_on_until_it_is_told_to_stop(committed_database: str, shop: Shop) -> None:
    declare(shared_store(committed_database), "here")
    process = shop.start("--loop", command="mq_maintenance")

    for _ in range(2):
        publish("here", ttl=0)
        wait_until(lambda: not Message.objects.using(committed_database).exists())
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0, said
    assert History.objects.using(committed_database).count() == 2
