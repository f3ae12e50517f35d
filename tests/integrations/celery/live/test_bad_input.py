"""Mistakes of users and of other programs, each with its test: no worker ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction
from kombu.exceptions import EncodeError

from django_mq.models import Message
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.site import Site

pytestmark = pytest.mark.on("postgresql")

ROOT = Path(__file__).parents[4]
DAY = "tests/journeys/test_a_workers_day.py"
OUTAGES = "tests/journeys/test_outages.py"
ELSEWHERE = {
    "an unknown option in the URL": (OUTAGES, "test_a_worker_with_a_wrong_url_says_so_and_ends"),
    "a database alias that does not exist": (
        "tests/integrations/celery/test_address.py",
        "test_publishing_to_a_wrong_url_is_a_connection_error",
    ),
    "a database without tables": (OUTAGES, "test_a_worker_waits_for_the_tables_and_names_the_command"),
    "a task that is too large": (
        "tests/integrations/celery/test_publishing.py",
        "test_what_is_over_the_limit_is_refused",
    ),
    "an unknown task": (DAY, "test_an_unknown_task_becomes_a_dead_letter_and_stops_nobody"),
    "a row that is no message": (DAY, "test_a_corrupt_row_becomes_a_dead_letter_and_stops_nobody"),
    "a message that is no task": (DAY, "test_a_message_that_makes_no_sense_to_celery_stops_nobody"),
}


@pytest.mark.parametrize(("file", "name"), ELSEWHERE.values(), ids=list(ELSEWHERE))
def test_the_wrong_thing_has_its_test(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


@pytest.mark.once
def test_arguments_and_serializers_that_cannot_be_and_messages_from_tomorrow_stop_nobody(site: Site) -> None:
    with site.worker("-c", "1") as worker:
        with pytest.raises(EncodeError):
            site.send("note", object())
        assert not site.rows()

        pickled = site.send("note", "pickled", serializer="pickle")
        wait_until(lambda: site.states(correlation_id=pickled) == {"dead": 1}, site.story)
        with transaction.atomic(using=site.alias):
            from_tomorrow(site, site.send("note", "from tomorrow"))
        site.wait_for_diary(name="from tomorrow")
        wait_until(lambda: site.states() == {"dead": 1}, site.story)

        assert "ContentDisallowed" in worker.log
        assert worker.stop() == 0
    assert [line["name"] for line in site.diary()] == ["from tomorrow"]


def from_tomorrow(site: Site, task: str) -> None:
    """Give a task's message what a later Celery might write into it, and what a later version of ours might."""
    row = Message.objects.using(site.alias).get(correlation_id=task)
    headers, properties = dict(row.headers), dict(row.properties)
    headers |= {"x-of-tomorrow": {"deep": [1]}, "stamped_by": 7}
    properties |= {"of-tomorrow": True, "delivery_info": properties.get("delivery_info", {}) | {"shade": "green"}}
    body = json.loads(bytes(row.body))
    body[2] |= {"of_tomorrow": None}
    with connections[site.alias].cursor() as cursor:
        cursor.execute(
            f"UPDATE {Message._meta.db_table} SET headers = %s, properties = %s, body = %s WHERE id = %s",
            [json.dumps(headers), json.dumps(properties), json.dumps(body).encode(), row.id],
        )


@pytest.mark.once
def test_a_worker_is_told_of_the_wrong_argument_it_was_sent(site: Site) -> None:
    """Wrong arguments for the task itself: the task fails as with every broker, and is settled."""
    with site.worker("-c", "1") as worker:
        site.app.send_task("note", ["too", "many"], ignore_result=True)
        site.wait_until_settled()
        wait_until(lambda: "TypeError" in worker.log, site.story)
        site.send("note", "next")
        site.wait_for_diary(name="next")
        assert worker.stop() == 0
