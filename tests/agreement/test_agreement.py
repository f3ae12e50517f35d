"""A few histories on each store; ``python -m tests.agreement`` plays them by the hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agreement.faults import FAULTS, place
from tests.agreement.history import History, history_of
from tests.agreement.pair import Disagreement, Pair
from tests.agreement.shrinking import shortest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agreement.history import Operation

pytestmark = pytest.mark.on("sqlite", once="postgresql")

#: So many that the test takes a few seconds.
HISTORIES = 4


REPLACED_WHILE_HELD: list[Operation] = [
    ("open", {"slot": 0, "seconds": 1250.0}),
    ("publish", {"messages": [{"number": 1, "queue": "a", "key": "p"}]}),
    ("claim", {"slot": 0, "queues": ["a"], "credit": 1}),
    ("publish", {"messages": [{"number": 2, "queue": "a", "key": "p"}]}),
]
TWO_CLAIMED: list[Operation] = [
    ("open", {"slot": 0, "seconds": 1250.0}),
    ("publish", {"messages": [{"number": 1, "queue": "a", "priority": 1}, {"number": 2, "queue": "a"}]}),
    ("claim", {"slot": 0, "queues": ["a"], "credit": 9, "slots": 9}),
]
LAST_VALUES = {"a": {"kind": "last_value", "last_value_key": "k"}}
#: What has been found once.
FOUND = {
    "a value that was replaced while it was held has expired": History(
        LAST_VALUES,
        [*REPLACED_WHILE_HELD, ("settle", {"slot": 0, "items": [{"pick": 0, "how": "EXPIRE"}]})],
    ),
    "a value that was replaced while it was held has failed": History(
        LAST_VALUES,
        [
            *REPLACED_WHILE_HELD,
            ("settle", {"slot": 0, "items": [{"pick": 0, "how": "RELEASE", "counted": True, "failed": True}]}),
        ],
    ),
    "a value that was replaced while it was held never reached its session": History(
        LAST_VALUES, [*REPLACED_WHILE_HELD, ("resync", {"slot": 0, "known": []})]
    ),
    "a value is due when another message is published": History(
        {"a": {**LAST_VALUES["a"], "due_order": "keep_place"}},
        [
            TWO_CLAIMED[0],
            ("publish", {"messages": [{"number": 1, "queue": "a", "key": "p", "delay": 150.0}]}),
            ("publish", {"messages": [{"number": 2, "queue": "a", "key": "p"}]}),
            ("wait", {"steps": 2}),
            ("publish", {"messages": [{"number": 3, "queue": "a", "key": "q"}]}),
            ("claim", {"slot": 0, "queues": ["a"], "credit": 9}),
        ],
    ),
    "two messages expire in one batch": History(
        {"a": {"expiry_queue": "b"}, "b": {"kind": "fifo"}},
        [
            *TWO_CLAIMED,
            ("settle", {"slot": 0, "items": [{"pick": 0, "how": "EXPIRE"}, {"pick": 1, "how": "EXPIRE"}]}),
        ],
    ),
    "a claim from one queue has a limit for it": History(
        {"a": {}},
        [*TWO_CLAIMED[:2], ("claim", {"slot": 0, "queues": ["a"], "credit": 9, "limits": {"a": 1}})],
    ),
    "a constrained queue says when something is due": History(
        {"a": {"max_in_flight": 1}},
        [
            TWO_CLAIMED[0],
            ("publish", {"messages": [{"number": 1, "queue": "a", "delay": 150.0}]}),
            ("claim", {"slot": 0, "queues": ["a"], "credit": 1}),
        ],
    ),
    "a message that was sent on by a ring is of a lower level": History(
        {"a": {"dead_letter_exchange": "to.b"}, "b": {**LAST_VALUES["a"], "levels": 1}},
        [
            ("publish", {"messages": [{"number": 1, "queue": "a"}, {"number": 2, "queue": "a", "priority": 1}]}),
            ("publish", {"messages": [{"number": 3, "queue": "a"}]}),
            ("edit", {"queue": "a", "changes": {"max_messages": 2, "overflow": "ring"}}),
            ("publish", {"messages": [{"number": 4, "queue": "a"}]}),
        ],
    ),
    "a value is delivered now, and replaces a parked one that is to be delivered, too": History(
        LAST_VALUES,
        [
            TWO_CLAIMED[0],
            ("publish", {"messages": [{"number": 1, "queue": "a", "key": "p"}]}),
            ("publish", {"messages": [{"number": 2, "queue": "a", "key": "p", "delay": 250.0}]}),
            ("wait", {"steps": 1}),
            ("park", {"messages": [1], "key": "one", "seconds": None}),
            ("steer", {"messages": [1, 2], "how": "deliver_now"}),
        ],
    ),
    "a value that was replaced while it was held has killed its worker again": History(
        {"a": {**LAST_VALUES["a"], "max_attempts": 1}},
        [
            *REPLACED_WHILE_HELD[:3],
            ("die", {"slot": 0}),
            TWO_CLAIMED[0],
            *REPLACED_WHILE_HELD[2:],
            ("die", {"slot": 0}),
        ],
    ),
    "a session has been reaped when a task begins": History(
        {"a": {}},
        [
            *TWO_CLAIMED,
            ("die", {"slot": 0}),
            ("settle_late", {"items": [{"pick": 0, "how": "BEGIN"}, {"pick": 1, "how": "BEGIN"}]}),
            ("end_runs", {"picks": [0]}),
            ("reap", {"spare": None}),
            ("end_runs", {"picks": [1]}),
        ],
        {"a": [("concurrency", {"name": "first", "at_once": 9})]},
    ),
    "a message whose end is told is over its rate": History(
        {"a": {}},
        [
            TWO_CLAIMED[0],
            ("publish", {"messages": [{"number": 1, "queue": "a"}, {"number": 2, "queue": "a"}]}),
            TWO_CLAIMED[2],
        ],
        {"a": [("rate_limit", {"name": "first", "amount": 1, "seconds": 100.0})]},
    ),
    "a message is due in a paused queue": History(
        {"a": {}},
        [
            TWO_CLAIMED[0],
            ("pause", {"queue": "a", "paused": True, "seconds": None}),
            ("publish", {"messages": [{"number": 1, "queue": "a", "delay": 150.0}]}),
            ("wait", {"steps": 2}),
            ("claim", {"slot": 0, "queues": ["a"], "credit": 1}),
        ],
    ),
}


@pytest.fixture
def pair(committed_database: str) -> Iterator[Pair]:
    """The memory store and another one."""
    with Pair(committed_database) as opened:
        yield opened


def test_the_memory_store_and_a_database_agree_on_random_histories(pair: Pair) -> None:
    histories = [history_of(f"suite {number}") for number in range(HISTORIES)]
    for history in [*FOUND.values(), *histories]:
        try:
            pair.play(history)
        except Disagreement as found:
            least = shortest(pair, found, seconds=30)
            pytest.fail(f"{least.history}\n\n{least}", pytrace=False)


@pytest.mark.parametrize("store", ["sqlite", "postgresql", "mysql"])
def test_every_fault_can_be_planted(store: str) -> None:
    for fault in FAULTS:
        for edit in fault.of(store):
            place(edit, store)
