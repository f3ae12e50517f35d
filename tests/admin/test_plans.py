"""The statements of the pages find what is rare by an index, and never sort what they are asked a page of.

A table of few rows is rightly read whole, and few rows are rightly sorted, so PostgreSQL is told to do neither:
what counts is that an index can serve.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from django.db import connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.admin.operations import runner
from django_mq.diagnosis.messages import indexes, search, slices
from django_mq.diagnosis.messages.life import life_of
from django_mq.models import History, Message, Operation, Queue
from tests.admin.conftest import beside_default, list_of, page_of
from tests.stores.test_query_plans import filled

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.test import Client
    from pytest_django import Settings

#: MariaDB's plans are read with its store's: it has no partial indexes, so most of these say nothing there.
READ = [each for each in beside_default() if each.id in {"sqlite", "postgresql"}]
#: What is asked for to the indexes of the message table that have to serve it.
LISTS = {
    "queue=q1&state=1&order=delivery": ("ready",),
    "worker=77": ("claimed",),
    "reason=none": ("dead",),
    f"q={UUID(int=7)}": ("once", "corr"),
    "q=a-task": ("corr",),
}


EXPLAIN = {"default": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN"}


@pytest.fixture(params=READ)
def many(request: pytest.FixtureRequest, settings: Settings) -> str:
    """An alias with many messages in three of ten queues, on which whole tables are not read."""
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "DATABASE": request.param}
    settings.DATABASE_ROUTERS = ["django_mq.routers.MQRouter"]
    filled(request.param)
    if connections[request.param].vendor == "postgresql":
        with connections[request.param].cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    return str(request.param)


@pytest.mark.parametrize("address", LISTS)
def test_what_few_messages_match_is_found_by_an_index(many: str, browse: Client, address: str) -> None:
    rows = browse.get(f"{list_of('message')}?{address}").context["cl"].paginator.object_list.values_list("pk")
    if many == "postgresql":
        # Or else it may walk the key from its end: of so few rows that costs about the same.
        rows = rows.order_by()

    read = plan_of(rows[:1000])

    if many == "default" and address == "reason=none":
        pytest.skip("SQLite walks back through the newest where many are dead, as they are here")
    assert [name for name in LISTS[address] if f"django_mq_message_{name}" not in read] == []


def test_the_page_of_a_queue_reads_messages_by_indexes(many: str, browse: Client) -> None:
    queue = Queue.objects.using(many).get(name="q1")

    with CaptureQueriesContext(connections[many]) as captured:
        browse.get(page_of(queue))

    asked = [query["sql"] for query in captured.captured_queries if "django_mq_message" in query["sql"]]
    plans = {sql: plan(many, sql) for sql in asked if sql.lstrip("-( ").startswith(("SELECT", "WITH"))}
    assert len(plans) > 3
    whole = re.compile(r"Seq Scan on django_mq_message|SCAN (django_mq_message|m)\b(?! USING)")
    assert [sql for sql, read in plans.items() if whole.search(read)] == []


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"queue": "q10"}, ("due", "ready", "claimed", "dead")),
        ({"state": "0"}, ("due",)),
        ({"state": "1"}, ("ready",)),
        ({"state": "1", "queue": "q1"}, ("ready",)),
        ({"state": "3"}, ("dead",)),
        ({"state": "3", "queue": "q1"}, ("dead",)),
        ({"reason": "none"}, ("dead",)),
        ({"worker": "77"}, ("claimed",)),
    ],
    ids=str,
)
def test_what_indexes_tell_is_read_from_them_and_not_sorted(
    many: str, filters: dict[str, str], names: tuple[str, ...]
) -> None:
    read = [plan_of(part[:10]) for part in indexes.parts(filters, many) or []]

    assert [name for name, plan in zip(names, read, strict=False) if f"django_mq_message_{name}" not in plan] == []
    if "worker" not in filters:  # what one worker holds is little
        assert [plan for plan in read if "Sort" in plan or "TEMP B-TREE" in plan] == []


@pytest.mark.parametrize("state", ["0", "1", "3"])
def test_the_newest_of_a_state_are_sorted_out_of_its_index_and_not_looked_for_among_all(
    many: str, state: str
) -> None:
    """Walking back through all messages is quick where the newest are in that state, and endless where none is."""
    name = {"0": "due", "1": "ready", "3": "dead"}[state]
    [part] = indexes.parts({"state": state}, many) or []

    read = plan_of(part.order_by((F("pk") + 0).desc())[:1000])

    assert f"django_mq_message_{name}" in read
    assert "message_pkey" not in read


def test_a_slice_is_a_range_of_keys(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE", 1000)
    with CaptureQueriesContext(connections[many]) as captured:
        slices.newest(Message.objects.using(many).filter(type="none"), 1000, patience=0)
    looks = [one["sql"] for one in captured.captured_queries if "'none'" in one["sql"]]

    [read] = [plan(many, look) for look in looks]
    assert "message_pkey" in read or "INTEGER PRIMARY KEY" in read
    assert "TEMP B-TREE" not in read


def test_all_rows_of_a_message_are_found_by_the_indexes_of_their_ids(many: str) -> None:
    with CaptureQueriesContext(connections[many]) as captured:
        life_of(uuid4(), Message.objects.using(many), History.objects.using(many))
    names = [*("message_once", "history_message") * 2, *("message_corr", "history_corr")]

    read = " ".join(plan(many, one["sql"]) for one in captured.captured_queries)

    assert [name for name in set(names) if read.count(f"django_mq_{name}") < names.count(name)] == []
    assert "SCAN" not in read.upper().replace("INDEX SCAN", "").replace("INDEX ONLY SCAN", "")


def test_a_search_finds_ids_and_keys_by_their_indexes(many: str) -> None:
    tables = {name: model.objects.using(many) for name, (model, _) in search.TABLES.items()}
    names = [f"{table}_{index}" for table in ("history", "attempt") for index in ("message", "corr")]
    names += ["message_once", "message_corr", "searchkey_value"]
    with CaptureQueriesContext(connections[many]) as captured:
        search.search(str(uuid4()), tables)

    read = " ".join(plan(many, one["sql"]) for one in captured.captured_queries)

    assert [name for name in names if f"django_mq_{name}" not in read] == []


def test_a_finished_message_is_found_by_the_index_of_its_id(many: str, browse: Client) -> None:
    look = statement(many, browse, "history", {"q": str(uuid4())})

    assert "django_mq_history_message" in plan(many, look)


@pytest.mark.parametrize("act", ["cancel", "redrive"])
@pytest.mark.parametrize("state", ["0", "1", "3"])
def test_each_batch_of_an_operation_goes_on_from_the_last_one(many: str, state: str, act: str) -> None:
    operation = Operation(act=act, filters={"state": state}, cursor=9000, newest=19_000, created_at=timezone.now())

    read = plan_of(runner.rows_of(operation, many).filter(pk__lte=19_000)[: runner.BATCH])

    assert "django_mq_message_pkey" in read or "INTEGER PRIMARY KEY" in read
    assert "Sort" not in read
    assert "TEMP B-TREE" not in read


def plan_of(rows: QuerySet[object]) -> str:
    return rows.explain()


def statement(alias: str, client: Client, model: str, address: dict[str, str]) -> str:
    """Return the one statement of a list that puts several looks together."""
    with CaptureQueriesContext(connections[alias]) as captured:
        client.get(list_of(model), address)
    [found] = [query["sql"] for query in captured.captured_queries if "UNION ALL" in query["sql"]]
    return str(found)


def plan(alias: str, sql: str) -> str:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"{EXPLAIN[alias]} {sql}")
        return str(cursor.fetchall())
