"""The indexes serve the statements they are named after, and no statement walks the whole table.

The table is filled first: with few rows a database reads all of them, and rightly.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections, transaction

from django_mq.api import OutgoingMessage, publish_many
from django_mq.engine.selector import Selector
from django_mq.models import FairCounter, LimitException, LimitHold, LimitKey, LimitSlot, Queue
from django_mq.stores.mysql.database import parameters
from django_mq.stores.registry import private_store, shared_store
from django_mq.stores.sql.conditions import condition_of
from tests.stores.builders import declare, open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.stores.sql.store import SQLStore

ROWS = 20_000
#: Bounds of a claim; ``share_bytes`` is MariaDB's.
BYTES = {"max_bytes": 1000, "first_bytes": 2000, "share_bytes": 100}
MANY = {"ids": [1, 2], "claims": [1, 1], "counted": [True, True]}
NAMED = {"session": 1, "nameless": "w"}
TEXTS = {"errors": ["", ""], "error_paths": ["", ""], "details": ["", ""], "tracebacks": ["", ""]}
PAGE = {"after": 50, "level": 4, "place": 0, "limit": 10}
ACROSS: dict[str, Any] = {
    "queues": ["q1", "q2"],
    "session": 1,
    "claim": 1,
    "credit": 10,
    **BYTES,
    "slots": 1,
    "listed": [0, 0],
    "candidates": 40,
    "limits": [10, 2],
}
BY_BYTES = {"free_of": [1000, 2**62], "first_of": [2**62, 2**62]}

#: Statement to its parameters and the indexes of the message table that must serve it. A primary key
#: is ``pkey`` here: PostgreSQL's name ends so, and SQLite speaks of the INTEGER PRIMARY KEY.
#: The parameters of ``copy_dead`` besides the ids.
COPIED = ("headers", "properties", "causes")
PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "claim": ({"queue": "q1", "session": 1, "claim": 1, "credit": 10, "slots": 1, **BYTES}, "ready"),
    "claim_across": (ACROSS, "ready"),
    "claim_across_by_bytes": (ACROSS | BY_BYTES, "ready"),
    "promote_due": ({"queues": ["q1", "q2"], "limit": 100}, "due"),
    "promote_all": ({"limit": 100}, "due"),
    "find_expired": ({"limit": 100}, "expiring ending"),
    "find_unheld": ({"queue": "q1", "newest": 10**6, "dead": True, "limit": 100}, "ready"),
    "find_correlated": ({"correlation_ids": ["one", "two"]}, "corr"),
    "find_identified": ({"message_ids": [uuid4().hex, uuid4().hex]}, "once"),
    "counts": ({"names": ["q1"], "every": False, "limit": 100, "read": 100, "retrying": 100}, "ready"),
    "occupied": ({}, "ready"),
    "count_up_to": ({"queue": "q1", "limit": 100, "dead": True}, "dead"),
    # Of a queue that is most of the table, all of the table is rightly read.
    "measure_queue": ({"queue_id": 10**6, "dead": True}, "ready"),
    "newest_in_queue": ({"queue_id": 10**6}, "ready"),
    "overfull_rings": ({}, "ready"),
    "lowest_level": ({"queue_id": 10**6, "level": 0}, "ready"),
    "evictable": ({"queue_id": 10**6, "level": 4, "spared": 1, "limit": 10}, "ready"),
    "browse": ({"queue": "q1", "states": [1], **PAGE}, "ready"),
    "release_session": ({"session": 1}, "claimed"),
    "release_held_by_expired": ({"sessions": [1]}, "claimed"),
    "release_unknown": ({"session": 1, "held": [1, 2]}, "claimed"),
    "settle_finished": ({"ids": [1, 2], "claims": [1, 1], "session": 1, "outcome": 1}, "pkey"),
    "settle_released": ({**MANY, "delay_seconds": [0.0, 1.0], "session": 1}, "pkey"),
    "retake": ({"ids": [1, 2], "claims": [1, 1], "session": 1}, "pkey"),
    "settle_dead": ({**MANY, "reason": ["", ""], "session": 1}, "pkey"),
    "record_attempts": ({**MANY, **TEXTS, **NAMED} | {"claims": [1, 1]}, "pkey"),
    "dying": ({"ids": [1, 2]}, "pkey"),
    "copy_dead": ({"target": "q2", "ids": [1, 2], **{name: ["{}", "{}"] for name in COPIED}}, "pkey"),
    "coming": ({"ids": [1, 2], "queue_id": 10**6}, "pkey"),
    "marked": ({"ids": [1, 2]}, "pkey"),
    "marked_of_session": ({"session": 1}, "claimed"),
    "standing": ({"ids": [1, 2]}, "pkey"),
    "standing_again": ({"message_ids": ["0" * 32]}, "once"),
    "moved_here": ({"message_ids": ["0" * 32], "queue_id": 10**6}, "once"),
    "values_among": ({"ids": [1, 2], "state": 1}, "pkey"),
    "value_queues": ({"ids": [1, 2]}, "pkey"),
    "leaving": ({"ids": [1, 2], "replaced": "r"}, "pkey"),
    "set_expired_aside": ({"ids": [1, 2], "reason": "e", "replaced": "r"}, "pkey"),
    "move": ({"ids": [1, 2], "target": "q2", "outcome": 7}, "pkey"),
    "remove": ({"ids": [1, 2], "outcome": 1, "reason": None}, "pkey"),
    "prioritise": ({"ids": [1, 2], "priority": 9}, "pkey"),
    "deliver_now": ({"ids": [1, 2]}, "pkey"),
    "reschedule": ({"ids": [1, 2], "deliver_at": datetime(2031, 1, 1, tzinfo=UTC)}, "pkey"),
    "redrive_dead": ({"ids": [1, 2]}, "pkey"),
    "release_held": ({"ids": [1, 2]}, "pkey"),
    "arrivals": ({"queue": "q1", "after": 50, "limit": 10}, "pkey"),
    "held_replaced": ({"session": 1, "replaced": "r"}, "claimed"),
    "bury": ({"ids": [1, 2], "reason": "r"}, "pkey"),
    "facts": ({"queue": "q1", "session": 1, "limit": 10}, "ready claimed retrying due waking"),
    "page": ({"queue_id": 1, "groups": ["a"], **PAGE}, "ready"),
    "due_values": ({"queues": ["q1"], "every": False, "limit": 10}, "due"),
    "make_ready": ({"ids": [1, 2]}, "pkey"),
    "arrive_again": ({"ids": [1, 2], "id": 1}, "pkey"),
    "older_values": ({"queue_id": 10**6, "key": "a", "newest": 1, "due": True, "replaced": "r"}, "value"),
    "set_value_key": ({"id": 1, "key": "a"}, "pkey"),
    "mark_replaced": ({"ids": [1, 2], "replaced": "r"}, "pkey"),
    "end_replaced": ({"ids": [1, 2], "session": 1, "replaced": "r"}, "pkey"),
    "message_taken": ({"queue": "q1", "message_id": "0" * 32}, "once"),
    "part_end": ({"after": 50, "limit": 100}, "pkey"),
    "unasked": ({"after": 50, "last": 150, "queue_id": 1, "mark": 1024, "end": 2048}, "pkey"),
    "unasked_ready": ({"queue_id": 1, "limit": 100}, "meets"),
    "lock_to_ask": ({"ids": [1, 2], "queue_id": 1}, "pkey"),
    "set_places": ({"ids": [1, 2], "places": [-5, -4], "placed": "[[1, -5], [2, -4]]"}, "pkey"),
    "unplaced": ({"queue_id": 10**6, "limit": 10}, "ready"),
    "lock_unplaced": ({"ids": [1, 2], "queue_id": 1}, "pkey"),
    "unplace": ({"ids": [1, 2]}, "pkey"),
    "park": ({"ids": [1, 2], "key": "a", "seconds": 1.0}, "pkey"),
    "free": ({"queue": "q1", "key": "a", "limit": 10}, "parked"),
    "free_chosen": ({"ids": [1, 2]}, "pkey"),
    "free_due": ({"queues": ["q1"], "every": False, "limit": 10}, "waking"),
    "settle_parked": (
        {"ids": [1, 2], "claims": [1, 1], "delay_seconds": [0.0, 1.0], "park_key": ["a", "b"], "session": 1},
        "pkey",
    ),
    "set_meets": ({"ids": [1, 2], "meets": 1027, "queue": "q1", "mark": 1024}, "pkey"),
}
#: What a worker prepares once and then runs with a plan that must suit any values.
PREPARED = {
    "facts",
    "page",
    "claim_chosen",
    "claim",
    "claim_across",
    "claim_across_by_limits",
    "claim_across_by_bytes",
    "claim_declared",
    "claim_from_cursor",
    "promote_due",
    "settle_finished",
    "settle_released",
    "settle_dead",
    "record_attempts",
    "dying",
    "copy_dead",
}
#: PostgreSQL's own.
PLACES = {"levels": [4, 0], "places": [0, 0], "passed": [5, 5]}
FINISHED = {"ids": [1, 2], "claims": [1, 1], "outcome": 1}
IN_ONE_STATEMENT: dict[str, tuple[dict[str, Any], str]] = {
    "claim_chosen": (
        {"ids": [1, 2], "session": 1, "claim": 1, "lines": [1, 1], "slots": [1], "groups": [2]},
        "pkey",
    ),
    "claim": (PLANS["claim"][0] | FINISHED, "pkey ready due"),
    "claim_from_cursor": (PLANS["claim"][0] | FINISHED | PLACES, "pkey ready due"),
    "claim_declared": (PLANS["claim"][0] | FINISHED | {"meets": [1027, 1024]}, "pkey meets due"),
    "claim_across": (ACROSS | FINISHED, "pkey ready due"),
    "claim_across_by_limits": (ACROSS | FINISHED, "pkey ready due"),
    "claim_across_by_bytes": (ACROSS | BY_BYTES | FINISHED, "pkey ready due"),
}
POSTGRESQL_PLANS = PLANS | IN_ONE_STATEMENT
#: Each form of the claims that one statement makes: with settlements, and alone.
CLAIMS = sorted(name for name in IN_ONE_STATEMENT if name != "claim_chosen")
FORMS = [(name, alone) for name in CLAIMS for alone in (False, True)]
#: SQLite's own, in the same way.
MORE_PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "next_due": ({"queues": ["q1", "q2"]}, "due"),
    "claim_declared": (PLANS["claim"][0] | {"meets": "[1027, 1024, 0]"}, "meets"),
    "claimable": ({"queues": ["q1", "q2"]}, "ready"),
    "lock_chosen": ({"ids": [1, 2], "claim": 1}, "pkey"),
    "lease": ({"ids": [1, 2], "session": 1, "claim": 1}, "pkey"),
    "remember_finished": ({"ids": [1, 2], "claims": [1, 1], "session": 1, "outcome": 1}, "pkey"),
    "remember_removed": ({"ids": [1, 2], "outcome": 1, "reason": None}, "pkey"),
    "due_duties": ({"stalled_seconds": 60.0, "soon_seconds": 15.0}, "claimed"),
    "give_back_held_by_expired": ({"sessions": [1]}, "claimed"),
}

# Most rows are ready, and few are scheduled: a database reads all rows rather than a quarter by an index.
FILL = """
INSERT INTO django_mq_message (
    id, queue_id, state, level, place, priority, attempts, redelivered, suspect, message_id, type, published_at,
    deliver_at, expires_at, session_id, claim, dead_reason, content_type, content_encoding, headers, body)
SELECT n, q.id, CASE WHEN n %% 100 = 1 THEN 2 WHEN n %% 4 = 1 THEN 3 WHEN n %% 20 = 3 THEN 0 ELSE 1 END,
       n %% 10, 0, n %% 10, 0, false, false, {uuid}, '', {now}, {now}, {now},
       CASE WHEN n %% 100 = 1 THEN 1 END, CASE WHEN n %% 100 = 1 THEN 1 END, '', '', '', '{{}}', ''
FROM (SELECT {number} AS n FROM {rows}) numbers
JOIN django_mq_queue q ON q.name = {queue}
"""
JOINED = "'q' || (n %% 7 %% 3 + 1)"
NUMBER = "row_number() OVER ()"
DIALECTS = {
    "postgresql": {
        "queue": JOINED,
        "analyze": "ANALYZE",
        "number": NUMBER,
        "uuid": "gen_random_uuid()",
        "now": "now()",
        "rows": f"generate_series(1, {ROWS})",
    },
    "mariadb": {
        "queue": "concat('q', n %% 7 %% 3 + 1)",
        "analyze": "ANALYZE TABLE django_mq_message",
        "uuid": "uuid()",
        "now": "utc_timestamp(6)",
        "number": "seq",
        "rows": f"seq_1_to_{ROWS}",
    },
    "default": {
        "queue": JOINED,
        "analyze": "ANALYZE",
        "number": NUMBER,
        "uuid": "lower(hex(randomblob(16)))",
        "now": "'2031-01-01 00:00:00'",
        "rows": f"(WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n+1 FROM s LIMIT {ROWS}) SELECT * FROM s)",
    },
}


#: What earlier tests have left in tables and indexes is empty space, and a plan is chosen by it, too.
NEW_FILES = "TRUNCATE django_mq_queue, django_mq_workersession, django_mq_history, django_mq_attempt CASCADE"


def filled(alias: str) -> SQLStore:
    """A store with many messages in every state and fresh statistics."""
    store = shared_store(alias)
    if alias == "postgresql":
        with connections[alias].cursor() as cursor:
            cursor.execute(NEW_FILES)
    for number in range(1, 11):
        declare(store, f"q{number}")
        open_session(store)
    with connections[alias].cursor() as cursor:
        cursor.execute(FILL.format(**DIALECTS[alias]), [])
        cursor.execute(DIALECTS[alias]["analyze"])
    return store


# PostgreSQL


@pytest.fixture
def postgresql() -> SQLStore:
    return filled("postgresql")


def explained(
    store: SQLStore, name: str, *, generic: bool, wanted: str = "", **more: Any
) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a statement's plan: for these values, or for any."""
    text = store.database.text(name, {"wanted": wanted} | more)
    with store.database.connection.cursor() as cursor:
        if generic:
            names = sorted(set(re.findall(r"%\((\w+)\)s", text)))
            text = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", text).replace("%%", "%")
            cursor.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}")
        else:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", POSTGRESQL_PLANS[name][0])
        found = cursor.fetchone()[0]
    yield from nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def faults(plan: list[dict[str, Any]], index: str) -> Iterator[str]:
    if any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "django_mq_message" for node in plan):
        yield "reads the whole table"
    used = {node["Index Name"] for node in plan if "Index Name" in node}
    if not used.issuperset(named(index)):
        yield f"uses {sorted(used)} and not {index}"


def named(indexes: str, **others: str) -> set[str]:
    """The full names of indexes."""
    return {others.get(index, f"django_mq_message_{index}") for index in indexes.split()}


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("generic", [False, True], ids=["custom plan", "generic plan"])
def test_every_statement_uses_its_index_on_postgresql(postgresql: SQLStore, generic: bool) -> None:
    found = {
        name: list(faults(list(explained(postgresql, name, generic=generic)), index))
        for name, (_, index) in POSTGRESQL_PLANS.items()
        if not generic or name in PREPARED
    }

    assert [f"{name} {problem}" for name, problems in found.items() for problem in problems] == []


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("generic", [False, True], ids=["custom plan", "generic plan"])
def test_a_claim_that_settles_nothing_does_not_open_the_history(postgresql: SQLStore, generic: bool) -> None:
    plans = {name: list(explained(postgresql, name, generic=generic, alone=True)) for name in CLAIMS}

    for name, plan in plans.items():
        assert list(faults(plan, IN_ONE_STATEMENT[name][1])) == [], name
        assert not [node for node in plan if node["Node Type"] == "ModifyTable" and node["Operation"] != "Update"]


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize(("name", "alone"), [form for form in FORMS if form[0] != "claim_declared"])
def test_a_claim_by_selectors_walks_the_ready_messages_in_order(
    postgresql: SQLStore, name: str, alone: bool
) -> None:
    condition = condition_of((Selector("region = 'eu' AND size < 10"),), "q1", "w0_")
    assert condition is not None

    plan = list(explained(postgresql, name, generic=True, wanted=f"AND {condition.text}", alone=alone))

    assert list(faults(plan, "ready")) == []
    assert any("jsonb_typeof" in node.get("Filter", "") for node in plan)
    sorts = [node for node in plan if node["Node Type"] == "Sort" and "m.level DESC" in node["Sort Key"]]
    assert "across" in name or not sorts


@pytest.mark.django_db(databases=["postgresql"])
def test_facts_from_a_cursor_enter_the_index_at_its_place_in_each_level(postgresql: SQLStore) -> None:
    plan = list(explained(postgresql, "facts", generic=True, levels=""))

    assert not list(faults(plan, "ready"))
    assert any("ROW(place, id) > ROW(from_here.place" in node.get("Index Cond", "") for node in plan)


#: A claim by a declared selector, with one handler and with several.
BY_DECLARED = [(name, alone) for name, alone in FORMS if name not in {"claim", "claim_from_cursor"}]
MEETS = "UPDATE django_mq_message SET meets = 1024 + level WHERE queue_id = (SELECT min(id) FROM django_mq_queue)"


def declared_plan(store: SQLStore, name: str, alone: bool) -> list[dict[str, Any]]:
    condition = condition_of((Selector("region = 'eu' AND size < 10"),), "q1", "w0_")
    assert condition is not None
    return list(explained(store, name, generic=True, wanted=f"AND {condition.text}", meets="", alone=alone))


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_claim_by_a_declared_selector_reads_what_it_takes() -> None:
    filled("postgresql")
    with worker_store() as store, store.database.connection.cursor() as cursor:
        cursor.execute(MEETS)
        cursor.execute("ANALYZE django_mq_message")

        plans = {form: declared_plan(store, *form) for form in BY_DECLARED}

    for (name, _), plan in plans.items():
        assert list(faults(plan, "meets")) == [], name
        [walk] = [node for node in plan if node.get("Index Name") == "django_mq_message_meets"]
        assert all(column in walk["Index Cond"] for column in ("queue_id =", "meets =")), name
        assert ("across" in name) == any(node.get("Index Name") == "django_mq_message_ready" for node in plan)
        sorts = [node for node in plan if node["Node Type"] == "Sort"]
        assert "across" in name or not any("m.level DESC" in node["Sort Key"] for node in sorts), name


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
@pytest.mark.parametrize("dead", [0, 500])
@pytest.mark.parametrize(("name", "alone"), BY_DECLARED)
def test_a_plan_made_without_declared_messages_suits_many(name: str, alone: bool, dead: int) -> None:
    with worker_store() as store, store.database.connection.cursor() as cursor:
        leave_dead_rows(dead)
        cursor.execute("ANALYZE django_mq_message")

        found = [node for node in declared_plan(store, name, alone) if reads_messages(node)]

        assert [node for node in found if not begins_with_its_first_column(node)] == []
        assert "django_mq_message_meets" in {node.get("Index Name") for node in found}


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
@pytest.mark.parametrize("dead", [0, 500])
@pytest.mark.parametrize(("name", "alone"), [*((name, False) for name in sorted(PREPARED - set(CLAIMS))), *FORMS])
def test_a_plan_made_while_a_workers_queues_are_empty_suits_full_ones(name: str, alone: bool, dead: int) -> None:
    with worker_store() as store, store.database.connection.cursor() as cursor:
        leave_dead_rows(dead)
        cursor.execute("ANALYZE django_mq_message")

        found = [node for node in explained(store, name, generic=True, alone=alone) if reads_messages(node)]

        assert found
        assert [node for node in found if not begins_with_its_first_column(node)] == []


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_no_plan_of_a_worker_walks_over_all_messages_to_save_a_sort() -> None:
    """An index in nearly the right order of a statement's rows leads over all of them, if sorts are off."""
    filled("postgresql")
    with worker_store() as store:
        walked = {
            (name, alone): [
                node["Index Name"]
                for node in explained(store, name, generic=True, alone=alone)
                if walks_over_all(node)
            ]
            for name in {*POSTGRESQL_PLANS} - {"occupied"}  # of all queues, and no worker's
            for alone in ((False, True) if name in CLAIMS else (False,))
        }

    assert {form: indexes for form, indexes in walked.items() if indexes} == {}


def walks_over_all(node: dict[str, Any]) -> bool:
    """Whether a scan of the messages' table has no condition by which it enters its index."""
    is_scan = node["Node Type"] in {"Index Scan", "Index Only Scan"} and reads_messages(node)
    return is_scan and "Index Cond" not in node


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_plan_made_without_messages_gives_back_what_a_dead_session_held_by_its_ids() -> None:
    with worker_store() as store, store.database.connection.cursor() as cursor:
        cursor.execute("ANALYZE django_mq_message")

        plan = list(explained(store, "release_held_by_expired", generic=True))

    assert [node["Index Name"] for node in plan if walks_over_all(node)] == ["django_mq_message_claimed"]


@contextmanager
def worker_store() -> Iterator[SQLStore]:
    store = private_store("postgresql")
    try:
        yield store
    finally:
        store.close()


def leave_dead_rows(number: int) -> None:
    """Fill pages of the table with rows that are gone, as messages leave them that were handled."""
    if number:
        with transaction.atomic(using="postgresql"):
            declare(shared_store("postgresql"), "drained")
            publish_many([OutgoingMessage(queue="drained", body={}) for _ in range(number)], using="postgresql")
            transaction.set_rollback(True, using="postgresql")


def reads_messages(node: dict[str, Any]) -> bool:
    return node.get("Relation Name") == "django_mq_message" and "Scan" in node["Node Type"]


def begins_with_its_first_column(node: dict[str, Any]) -> bool:
    """Whether a scan enters its index by the first column: by any other it would read all of it.

    A bitmap reads all it finds before it returns one: it may find messages by their ids, or what workers hold,
    which is few and counted whole anyway, and not what is ready in a queue. The node below has the index.
    """
    is_bitmap = node["Node Type"] == "Bitmap Heap Scan"
    [scan] = [below for below in node["Plans"] if below["Node Type"].startswith("Bitmap")] if is_bitmap else [node]
    index = scan.get("Index Name", "")
    if is_bitmap and index not in {"django_mq_message_pkey", "django_mq_message_claimed"}:
        return False
    first = "(id" if index == "django_mq_message_pkey" else "(queue_id"
    return bool(scan.get("Index Cond", "").replace("((", "(").startswith(first))


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("generic", [False, True], ids=["custom plan", "generic plan"])
@pytest.mark.parametrize("alone", [False, True], ids=["settling", "alone"])
def test_a_claim_from_a_cursor_enters_the_index_there(postgresql: SQLStore, alone: bool, generic: bool) -> None:
    plan = list(explained(postgresql, "claim_from_cursor", generic=generic, alone=alone))

    [walk] = [node for node in plan if node.get("Index Name") == "django_mq_message_ready"]
    entry = re.sub(r"\bm(_\d)?\.", "", walk["Index Cond"])
    assert all(part in entry for part in ("queue_id =", "level = from_here.level", "ROW(place, id) >"))


@pytest.mark.django_db(databases=["postgresql"])
def test_a_claim_reads_as_many_entries_as_it_takes(postgresql: SQLStore) -> None:
    with postgresql.database.connection.cursor() as cursor:
        text = postgresql.database.text("claim", {"alone": True})
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", PLANS["claim"][0])
        plan = list(nodes(cursor.fetchone()[0][0]["Plan"]))

    [walk] = [node for node in plan if node.get("Index Name") == "django_mq_message_ready"]
    assert walk["Actual Rows"] <= 10
    assert walk.get("Rows Removed by Filter", 0) == 0
    assert not [node for node in plan if node["Node Type"] == "Sort" and node["Actual Rows"] > 10]


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("name", ["claim", "claim_from_cursor", "claim_declared", "claim_across"])
def test_a_claim_decides_on_its_messages_in_one_pass(postgresql: SQLStore, name: str) -> None:
    """A second pass for bytes, or for limits of single queues, costs more than what it decides."""
    plan = list(explained(postgresql, name, generic=True))

    read = [node["CTE Name"] for node in plan if node["Node Type"] == "CTE Scan"]
    assert "parts" not in read
    assert read.count("head") <= 2
    assert not [node for node in plan if node["Node Type"] == "Append"]


@pytest.mark.django_db(databases=["postgresql"])
def test_counts_read_a_bounded_number_of_entries_however_many_are_ready(postgresql: SQLStore) -> None:
    params = {"names": ["q1"], "every": False, "limit": 50, "read": 5, "retrying": 5}
    with postgresql.database.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {postgresql.database.text('counts')}", params)
        plan = list(nodes(cursor.fetchone()[0][0]["Plan"]))

    walks = [node for node in plan if node.get("Index Name") == "django_mq_message_ready"]
    assert len(walks) == 7
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in walks) <= 50 + 10 * (5 + 5 + 1 + 50)


# MariaDB: a plan is a table of steps, each with the index that it uses


#: Its own, and those that are something else there than elsewhere.
LOCKED = {"ids": [1, 2], "claim": 1, **BYTES}
PLANS_ON_MARIADB: dict[str, tuple[dict[str, Any], str]] = {
    name: PLANS[name]
    for name in (
        *("claim", "find_unheld", "browse", "release_session", "release_unknown"),
        *("prioritise", "deliver_now", "reschedule", "redrive_dead", "release_held"),
        *("measure_queue", "newest_in_queue", "overfull_rings", "lowest_level", "evictable"),
        *("older_values", "set_value_key", "mark_replaced", "end_replaced"),
        *("dying", "coming", "values_among", "value_queues", "leaving", "set_expired_aside"),
        *("page", "arrivals"),
        *("held_replaced", "bury"),
    )
} | {
    "next_due": ({"queues": ["q1", "q2"]}, "due"),
    "append_many": ({"messages": '[{"queue_id": 1, "priority": 4}]'}, "pkey"),
    "written": ({"message_ids": ["0" * 32, "1" * 32]}, "once"),
    "lock_chosen": (LOCKED, "pkey"),
    "bodies": ({"ids": [1, 2]}, "pkey"),
    "candidates": ({"queue": "q1", "candidates": 10}, "ready"),
    # What is read of groups alone is not in the plan of a queue without them.
    "facts": (PLANS["facts"][0], "ready claimed due"),
    "lease": ({**LOCKED, "session": 1}, "pkey"),
    "due_queues": ({"queues": ["q1"], "every": False}, "due"),
    "lock_due": ({"queue_id": 1, "limit": 10}, "due"),
    "find_expired": ({"limit": 10}, "expiring"),
    "counts": ({"names": ["q1"], "every": False, "limit": 100, "read": 100, "retrying": 100}, "ready"),
    "longest_waiting": ({"queue": "q1", "read": 100}, "ready"),
    "longest_arrived": ({"queue": "q1", "level": 4, "limit": 100}, "ready"),
    "longest_due": ({"queue": "q1", "level": 4, "limit": 100}, "ready"),
    "count_up_to": ({"queue": "q1", "limit": 100, "dead": True}, "ready"),
    "find_held_by_expired": ({"sessions": [1]}, "claimed"),
    "lock_held_by_expired": ({"ids": [1, 2], "sessions": [1]}, "pkey"),
    "release_held_by_expired": (LOCKED, "pkey"),
    "lock_held": ({"ids": [1, 2], "session": 1}, "pkey"),
    "retake": ({**LOCKED, "session": 1}, "pkey"),
    "lock_given_back": ({"ids": [1, 2], "session": 1}, "pkey"),
    "lock_to_change": ({"ids": [1, 2], "states": [0, 1], "timed": True}, "pkey"),
    "lock_unheld": ({"ids": [1, 2], "states": [0, 1], "reason": None}, "pkey"),
    "settle_released": ({"ids": [1, 2], "delay_seconds": 1.0, "counted": True}, "pkey"),
    "settle_dead": ({"ids": [1, 2], "reason": "", "counted": True}, "pkey"),
    "remember_finished": ({"ids": [1, 2], "outcome": 1}, "pkey"),
    "remember_removed": ({"ids": [1, 2], "outcome": 1}, "pkey"),
    "drop_messages": (LOCKED, "pkey"),
    "move": ({"id": 3, "target": "q2"}, "pkey"),
    "record_attempts": (
        {"id": 1, "counted": True, **NAMED, "error": "", "error_path": "", "detail": "", "traceback": ""},
        "pkey",
    ),
    "stand_aside": (LOCKED, "pkey"),
}
#: What reads the table by key alone shows no access to it where the row is a constant.
STEP = ("id", "select_type", "table", "type", "possible_keys", "key", "key_len", "ref", "rows", "Extra")


# ANALYZE commits there.
@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_every_statement_uses_its_index_on_mariadb() -> None:
    store = filled("mariadb")
    found = {}
    for name, (params, index) in PLANS_ON_MARIADB.items():
        steps = list(steps_of(store, name, params))
        used = {step["key"] for step in steps}
        if not used.issuperset(named(index, pkey="PRIMARY")) or any(reads_all_messages(step) for step in steps):
            found[name] = steps

    assert not found
    assert not any("filesort" in str(step["Extra"]) for step in steps_of(store, "claim", PLANS["claim"][0]))


def steps_of(store: SQLStore, name: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with store.database.connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {store.database.text(name)}", parameters(params))
        for row in cursor.fetchall():
            yield dict(zip(STEP, row, strict=True))


def reads_all_messages(step: dict[str, Any]) -> bool:
    return step["type"] in {"ALL", "index"} and int(step["rows"] or 0) > ROWS // 2


# SQLite


@pytest.mark.django_db(databases=["default"])
def test_every_statement_uses_its_index_on_sqlite() -> None:
    store = filled("default")
    found = {}
    for name, (params, index) in (PLANS | MORE_PLANS).items():
        with store.database.connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {store.database.text(name)}", store.database.fitted(params))
            steps = [row[3] for row in cursor.fetchall()]
        unused = [
            key for key in named(index, pkey="INTEGER PRIMARY KEY") if not any(key in step for step in steps)
        ]
        if unused or any(is_whole_table(store, name, step) for step in steps):
            found[name] = steps

    assert not found


@pytest.mark.django_db(databases=["default"])
def test_a_claim_by_a_declared_selector_reads_its_index_on_sqlite() -> None:
    store = filled("default")
    params = PLANS["claim"][0] | {"wanted": "AND m.priority > 3", "meets": "[1027, 1024, 0]"}
    with store.database.connection.cursor() as cursor:
        cursor.execute(MEETS, [])
        cursor.execute("ANALYZE")
        text = store.database.text("claim_declared", params)
        cursor.execute(f"EXPLAIN QUERY PLAN {text}", store.database.fitted(params))
        steps = [row[3] for row in cursor.fetchall()]

    walks = [step for step in steps if "django_mq_message_meets" in step]
    assert len(walks) == 3
    assert all("queue_id=? AND meets=?" in step for step in walks)
    assert not any("django_mq_message_ready" in step or "SCAN m" in step for step in steps)


def is_whole_table(store: SQLStore, name: str, step: str) -> bool:
    """Whether a step reads every message, without even a partial index."""
    aliases = set(re.findall(r"django_mq_message (?:AS )?([a-z]+)\b", store.database.text(name))) - {
        "on",
        "where",
        "set",
    }
    scanned = re.match(r"SCAN (\w+)(.*)", step)
    return bool(scanned) and scanned[1] in aliases | {"django_mq_message"} and "INDEX" not in scanned[2]


# What keys share a queue by.

LEVEL = {"level": 4, "keys": ["", "k77"], "first": -(2**62), "limit": 20}
COUNTER_PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "fair_level": (LEVEL, "fair_key message_ready"),
    "lock_counters": ({"ids": [1, 2]}, ""),
    "set_counters": ({"counters": '[{"id": 1, "finish": 1, "seen": 1}]'}, ""),
    "drop_counters": ({"ids": [1, 2]}, ""),
}
#: PostgreSQL's own, for a single message.
FAIR_PLANS = {
    "fair_level_of": {"django_mq_fair_key", "django_mq_message_ready"},
    "append_fair": {"django_mq_faircounter_pkey"},
}


#: The tables of which no publish may read all.
UNREAD = {"django_mq_message", "django_mq_faircounter"}


def filled_with_keys(alias: str) -> tuple[SQLStore, int]:
    """A filled store whose first queue has many keys, and the id of that queue."""
    store = filled(alias)
    queue_id = Queue.objects.using(alias).get(name="q1").pk
    FairCounter.objects.using(alias).bulk_create(
        FairCounter(queue_id=queue_id, level=4, fair_key=f"k{number}", finish=number, seen=number // 2)
        for number in range(5000)
    )
    with connections[alias].cursor() as cursor:
        cursor.execute("ANALYZE TABLE django_mq_faircounter" if alias == "mariadb" else "ANALYZE")
    return store, queue_id


@pytest.mark.once
@pytest.mark.parametrize(
    "alias",
    [
        pytest.param(alias, marks=pytest.mark.django_db(databases=[alias], transaction=alias == "mariadb"))
        for alias in ("default", "postgresql", "mariadb")
    ],
)
def test_the_counters_of_a_key_are_found_among_those_of_all(alias: str) -> None:
    store, queue_id = filled_with_keys(alias)
    explain = "EXPLAIN QUERY PLAN" if alias == "default" else "EXPLAIN"
    found = {}
    with store.database.connection.cursor() as cursor:
        for name, (params, indexes) in COUNTER_PLANS.items():
            given = store.database.fitted(params | {"queue_id": queue_id})
            cursor.execute(f"{explain} {store.database.text(name, given)}", given)
            plan = "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())
            missing = [index for index in indexes.split() if f"django_mq_{index}" not in plan]
            if missing or re.search(r"Seq Scan|SCAN django|SCAN c\b|SIMPLE (?!given)\S+ ALL", plan):
                found[name] = plan

    assert not found


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("name", FAIR_PLANS)
def test_a_single_message_with_a_key_is_written_by_indexes_on_postgresql(name: str) -> None:
    store, _ = filled_with_keys("postgresql")

    plan = list(explained(store, name, generic=True, place=0))

    assert {node["Index Name"] for node in plan if "Index Name" in node} >= FAIR_PLANS[name]
    assert not [node for node in plan if node.get("Relation Name") in UNREAD and node["Node Type"] == "Seq Scan"]


# What limits by key have used.

OF_LIMITS = {"queue": "q1", "limit": 101, "longest": 60.0, "keys": '[["api", "5"], ["api", "7"]]', "after": "q1"}
OF_LIMITS |= {"kept": 60.0, "parked": 3600.0}
LIMIT_PLANS = {
    "rates_facts": "limitkey_once limitkey_waiting limithold_key limitexception_once limitslot_queue",
    "rates_of_keys": "limitkey_once limithold_key limitexception_once",
    "limited_queues": "",
    "prune_rates": "limitkey_waiting",
    "prune_left": "limitkey_waiting",
    "prune_holds": "limithold_queue",
}
#: A whole table that is read, as each database says it.
WHOLE = re.compile(r"Seq Scan on django_mq_limit|SCAN django_mq_limit|SIMPLE django_mq_limit\w+ ALL")


def filled_with_limits(alias: str) -> SQLStore:
    """A store of which ten queues have many keys each, which wait, are held, and have exceptions."""
    places = [
        {"queue_name": f"q{number % 10}", "limit_name": "api", "limited_key": str(number)}
        for number in range(10_000)
    ]
    for model, values in (
        (LimitKey, {"free_at": 2e9, "seen_at": 1e9, "waiting_until": 2e9}),
        (LimitHold, {"held_until": 2e9}),
        (LimitException, {"amount": 1, "seconds": 1}),
        (LimitSlot, {"message_row": 1, "claim": 1}),
    ):
        found: Any = model
        found.objects.using(alias).bulk_create([found(**place, **values) for place in places], batch_size=5000)
    tables = ["limitkey", "limithold", "limitexception", "limitslot"]
    with connections[alias].cursor() as cursor:
        named = ", ".join(f"django_mq_{table}" for table in tables)
        cursor.execute(f"ANALYZE TABLE {named}" if alias == "mariadb" else "ANALYZE")
    return shared_store(alias)


@pytest.mark.once
@pytest.mark.parametrize(
    "alias",
    [
        pytest.param(alias, marks=pytest.mark.django_db(databases=[alias], transaction=alias == "mariadb"))
        for alias in ("default", "postgresql", "mariadb")
    ],
)
def test_no_claim_reads_all_keys_of_a_queue(alias: str) -> None:
    store = filled_with_limits(alias)
    explain = "EXPLAIN QUERY PLAN" if alias == "default" else "EXPLAIN"
    found = {}
    with store.database.connection.cursor() as cursor:
        for name, indexes in LIMIT_PLANS.items():
            given = store.database.fitted(OF_LIMITS)
            cursor.execute(f"{explain} {store.database.text(name, given)}", given)
            plan = "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())
            # SQLite has a name of its own for the index of a constraint.
            told = re.sub(r"sqlite_autoindex_(\w+)_1", r"\1_once", plan)
            missing = [index for index in indexes.split() if f"django_mq_{index}" not in told]
            if missing or WHOLE.search(plan):
                found[name] = (missing, plan)

    assert not found
