"""What a durable handler gets when it asks for something, by what is recorded."""

from __future__ import annotations

import pytest

from django_mq.engine.decisions.durable import Record, Reply, StepKind, StepOutcome, Turn, difference, replay

NOW = 1000.0


def a(kind: StepKind, name: str = "", key: str = "", number: int = 0, **given: object) -> Record:
    return Record(kind, name, key, number)._replace(**given)


CHARGE, MAIL, SLEEP = a(StepKind.STEP, "charge"), a(StepKind.STEP, "mail"), a(StepKind.SLEEP)
AGAIN = a(StepKind.STEP, "charge", number=1)
ASLEEP = SLEEP._replace(outcome=StepOutcome.OPEN, until=NOW + 1)
SLEPT = ASLEEP._replace(until=NOW)
PAID = a(StepKind.WAIT, "paid", "7")
WAITS = PAID._replace(outcome=StepOutcome.OPEN)
LATE = PAID._replace(outcome=StepOutcome.TIMED_OUT)
NEW = a(StepKind.PATCH, "new")
NEWER = a(StepKind.PATCH, "newer")


@pytest.mark.parametrize(
    ("records", "place", "asked", "reply"),
    [
        ([], 0, CHARGE, Reply(Turn.RUN, 0)),
        ([CHARGE], 0, CHARGE, Reply(Turn.RETURN, 0, CHARGE)),
        ([CHARGE], 1, AGAIN, Reply(Turn.RUN, 1)),
        ([CHARGE], 0, MAIL, Reply(Turn.REFUSE, 0, CHARGE)),
        ([CHARGE, CHARGE], 1, AGAIN, Reply(Turn.REFUSE, 1, CHARGE)),
        ([CHARGE], 0, SLEEP, Reply(Turn.REFUSE, 0, CHARGE)),
        ([ASLEEP], 0, SLEEP, Reply(Turn.WAIT, 0, ASLEEP)),
        ([SLEPT], 0, SLEEP, Reply(Turn.WAKE, 0, SLEPT)),
        ([ASLEEP, CHARGE], 0, SLEEP, Reply(Turn.WAKE, 0, ASLEEP)),
        ([WAITS], 0, PAID, Reply(Turn.WAIT, 0, WAITS)),
        ([PAID], 0, PAID, Reply(Turn.RETURN, 0, PAID)),
        ([LATE], 0, PAID, Reply(Turn.TIME_OUT, 0, LATE)),
        ([PAID], 0, PAID._replace(key="8"), Reply(Turn.REFUSE, 0, PAID)),
        ([], 0, NEW, Reply(Turn.RUN, 0)),
        ([CHARGE], 0, NEW, Reply(Turn.OLD, 0, CHARGE)),
        ([NEW, CHARGE], 0, NEW, Reply(Turn.RETURN, 0, NEW)),
        ([NEWER, NEW], 0, NEW, Reply(Turn.RETURN, 1, NEW)),
        ([NEWER, NEW], 2, NEWER, Reply(Turn.RETURN, 1, NEWER)),
        ([NEW, CHARGE], 0, CHARGE, Reply(Turn.RETURN, 1, CHARGE)),
        ([NEW], 0, CHARGE, Reply(Turn.RUN, 1)),
    ],
)
def test_the_way_that_is_recorded_is_taken_again(
    records: list[Record], place: int, asked: Record, reply: Reply
) -> None:
    assert replay(records, place, asked, NOW) == reply


def test_a_difference_names_both_sides() -> None:
    told = "the wait 'paid' '7' is recorded, and the handler asks for the step 'charge', number 2 of this name,"
    assert difference(PAID, AGAIN) == told
