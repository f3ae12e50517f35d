"""The age of the oldest ready message is the same in every command: not that of the head of the queue."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db.models import F

from django_mq.api import publish, publish_many
from django_mq.delivery.queues import declare
from django_mq.models import Message
from django_mq.stores.records import AGES_READ
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run


def publish_behind_due_ones(alias: str, in_front: int) -> None:
    """Let a message of ten minutes ago stand behind some that are due now."""
    store = shared_store(alias)
    declare(store, "orders")
    publish_many([("orders", 1)] * in_front)
    rows = Message.objects.using(alias)
    rows.update(deliver_at=F("published_at"), place=-(2**62))
    old = publish("orders", 2)
    rows.filter(message_id=old).update(published_at=F("published_at") - timedelta(minutes=10))


def looked(capsys: pytest.CaptureFixture[str], *command: Any) -> dict[str, Any]:
    call_command(*command)
    answer = json.loads(capsys.readouterr().out)
    [queue] = answer["queues"] if isinstance(answer, dict) else answer
    return dict(queue)


@pytest.mark.parametrize(("in_front", "least"), [(1, ""), (AGES_READ, "at least ")])
def test_a_message_behind_due_ones_is_the_oldest_in_every_command(
    committed_database: str, run: Run, capsys: pytest.CaptureFixture[str], in_front: int, least: str
) -> None:
    publish_behind_due_ones(committed_database, in_front)

    assert f"  {least}10 min" in run("mq_queues")
    assert f"  {least}10 min" in run("mq_top", "--once")
    for command in (("mq_queues", "--json"), ("mq_top", "--once", "--json")):
        queue = looked(capsys, *command)
        assert 600 <= queue["oldest_ready_seconds"] < 1200
        assert queue["is_oldest_exact"] is not bool(least)
    with pytest.raises(SystemExit):
        call_command("mq_health", "--max-age", "300", "--timeout", "60")
    assert f"has waited {least}10 min" in capsys.readouterr().out
