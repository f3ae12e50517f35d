from django_mq.inprocess.entries.timeline import Timeline, due_order
from tests.inprocess.builders import entry, names


def test_at_one_instant_redeliveries_come_first_and_each_kind_by_arrival() -> None:
    schedule = Timeline(due_order)
    schedule.add(entry("new 2", arrival=2, due_at=5.0))
    schedule.add(entry("again 4", arrival=4, due_at=5.0, redelivered=True))
    schedule.add(entry("new 1", arrival=1, due_at=5.0))
    schedule.add(entry("again 3", arrival=3, due_at=5.0, redelivered=True))
    schedule.add(entry("earlier", arrival=9, due_at=4.0))

    assert names(schedule) == ["earlier", "again 3", "again 4", "new 1", "new 2"]


def test_a_scheduled_entry_can_be_taken_out_before_its_time() -> None:
    schedule = Timeline(due_order)
    cancelled, kept = entry(arrival=1, due_at=1.0), entry("kept", arrival=2, due_at=2.0)
    schedule.add(cancelled)
    schedule.add(kept)

    assert schedule.remove(cancelled)

    assert (schedule.next_time, names(schedule)) == (2.0, ["kept"])
