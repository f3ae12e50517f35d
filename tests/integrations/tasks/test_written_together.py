"""The results of tasks are written together, before their messages are settled."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from django_mq.delivery.consumer.session import Session
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import StoreError, StoreUnavailable
from django_mq.models import Message, TaskResult
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest, Settlement, Write
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[[], None]

pytestmark = pytest.mark.on("postgresql")

NOW = datetime(2031, 1, 1, tzinfo=UTC)


def columns(number: int, record: str) -> dict[str, Any]:
    times = dict.fromkeys(("started_at", "last_attempted_at", "finished_at", "expires_at"), NOW)
    return {
        "message_id": UUID(int=number),
        "successful": bool(number % 2),
        "queue_name": "default",
        "record": record,
        **times,
    }


def test_many_results_are_written_at_once_in_place_of_the_last_ones(alias: str) -> None:
    results = shared_store(alias).results
    text = '{"a": "\\"\\\\ \\u00e4 \u00e4, it is"}'
    results.write_many([columns(1, "{}"), columns(2, "{}")])
    results.write_many([columns(3, text), columns(2, text)])

    rows = TaskResult.objects.using(alias).order_by("message_id")
    assert [(row.pk.int, row.record, row.successful) for row in rows] == [
        (1, "{}", True),
        (2, text, False),
        (3, text, True),
    ]
    assert {row.finished_at for row in rows} == {NOW}


def test_many_tasks_have_their_results(alias: str, work: Any, run: Run) -> None:
    added = [work.add.enqueue(number, two=1) for number in range(40)]
    failed = [work.fail.enqueue("lookup") for _ in range(3)]
    retried = work.which_attempt.enqueue(2)

    run()

    for number, result in enumerate(added):
        result.refresh()
        assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", number + 1, 1)
    for result in failed:
        result.refresh()
        assert (result.status, len(result.errors)) == ("FAILED", 1)
    retried.refresh()
    assert (retried.status, retried.return_value, retried.attempts) == ("SUCCESSFUL", 2, 2)


#: What goes wrong when results are written, and whether their messages are settled in the end.
FAULTS: dict[str, tuple[StoreError, int, str]] = {
    "the database is away once": (StoreUnavailable("away"), 1, "gone"),
    "the database refuses them": (StoreError("too long"), 99, "back"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_message_is_settled_before_its_result_is_written(
    alias: str, work: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    error, times, end = FAULTS[fault]
    tried: list[list[Any]] = []
    declare(shared_store(alias), "default")
    work.add.enqueue(1)
    wake = Wake()
    session = Session(alias, kind="native", wake=wake)

    def write(store: Any, values: list[Any]) -> None:
        tried.append(values)
        assert Message.objects.using(alias).get().state == Message.Status.CLAIMED
        if len(tried) <= times:
            raise error

    try:
        [message] = session.settle_and_claim(ClaimRequest(queues=("default",), credit=1)).claimed
        session.settle(Settlement(message.id, message.claim, Verdict.ACCEPT, first=Write(write, "row")))
        with caplog.at_level(logging.CRITICAL):
            session.flush()
            session.flush()
    finally:
        session.close()
        session.store.close()
        wake.close()

    assert tried[:2] == [["row"], ["row"]]
    messages = Message.objects.using(alias)
    assert [(each.attempts, each.state) for each in messages] == (
        [] if end == "gone" else [(1, Message.Status.SCHEDULED)]
    )
