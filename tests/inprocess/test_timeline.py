from django_mq.inprocess.entries.timeline import NEVER, Timeline
from tests.inprocess.builders import entry


def timeline(*times: float) -> Timeline:
    line = Timeline(key=lambda each: (each.due_at or 0.0, each.arrival))
    for arrival, due_at in enumerate(times):
        line.add(entry(arrival=arrival, due_at=due_at))
    return line


def test_an_empty_timeline_waits_for_ever() -> None:
    line = timeline()

    assert (line.next_time, line.pop_until(1e12)) == (NEVER, [])


def test_the_next_time_is_the_earliest() -> None:
    assert timeline(3.0, 1.0, 2.0).next_time == 1.0


def test_popping_takes_what_has_come_and_leaves_the_rest() -> None:
    line = timeline(3.0, 1.0, 2.0)

    assert [each.due_at for each in line.pop_until(2.0)] == [1.0, 2.0]
    assert [each.due_at for each in line] == [3.0]


def test_popping_stops_at_so_many() -> None:
    line = timeline(3.0, 1.0, 2.0)

    assert [each.due_at for each in line.pop_until(9.0, 2)] == [1.0, 2.0]
    assert line.pop_until(9.0, 0) == []
    assert line.next_time == 3.0
