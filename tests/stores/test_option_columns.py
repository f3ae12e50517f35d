"""Options of a queue on their way to the tables and back."""

from __future__ import annotations

import json

import pytest
from django.db import connections

from django_mq.delivery.operator.queue_editor import edit_queue
from django_mq.engine.options import OPTIONS, OTHERS, QueueOptions
from django_mq.models import Queue
from django_mq.stores.registry import shared_store
from django_mq.stores.sql.database import options_written
from tests.stores.builders import declare


def test_the_model_has_the_column_of_every_option() -> None:
    columns = {name: Queue._meta.get_field(name).column for name in OPTIONS if name not in OTHERS}

    assert columns == {name: OPTIONS[name].column for name in columns}


def test_options_without_a_column_are_written_where_they_are_not_the_default() -> None:
    usual, other = QueueOptions(), QueueOptions(backoff_ticks_per_second=1000)

    assert options_written(usual.as_dict())["other_options"] is None
    assert json.loads(options_written(other.as_dict())["other_options"]) == {"backoff_ticks_per_second": 1000}


def test_an_option_that_a_newer_version_wrote_is_left_alone() -> None:
    row = Queue(name="orders", other_options={"of_tomorrow": 1})

    row.backoff_ticks_per_second = 1000  # type: ignore[attr-defined]
    assert row.other_options == {"of_tomorrow": 1, "backoff_ticks_per_second": 1000}
    assert row.options == QueueOptions(backoff_ticks_per_second=1000, added={"of_tomorrow": 1})

    row.backoff_ticks_per_second = 0  # type: ignore[attr-defined]
    assert row.other_options == {"of_tomorrow": 1}


@pytest.mark.parametrize(
    "stored",
    [
        "null",
        "7",
        "[]",
        '"backoff_ticks_per_second"',
        '["backoff_ticks_per_second"]',
        *(f'{{"backoff_ticks_per_second": {value}}}' for value in ('"7"', "-1", "true", "null", "1.5", "1e400")),
    ],
)
def test_what_cannot_be_an_option_is_read_as_the_default_and_can_be_set_right(database: str, stored: str) -> None:
    store = shared_store(database)
    declare(store)
    with connections[database].cursor() as cursor:
        cursor.execute("UPDATE django_mq_queue SET other_options = %s", [stored])

    record, row = store.queues.find("orders"), Queue.objects.using(database).get()
    assert record is not None
    assert (record.backoff_ticks_per_second, row.options) == (0, QueueOptions())

    edit_queue("orders", {"backoff_ticks_per_second": 1000}, using=database)
    row.refresh_from_db()
    assert row.other_options == {"backoff_ticks_per_second": 1000}


def test_a_delay_is_cut_to_the_queues_ticks() -> None:
    backoff = QueueOptions(
        backoff_seconds=1.0, backoff_multiplier=1.5, backoff_jitter=0.0, backoff_ticks_per_second=1
    ).backoff

    assert [backoff.delay(attempt) for attempt in (1, 2, 3)] == [1.0, 1.0, 2.0]
