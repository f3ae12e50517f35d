from django_mq.engine.timeline import NEVER, Calendar
from tests.engine.builders import entry


def test_an_empty_calendar_is_quiet_for_ever() -> None:
    assert Calendar().quiet_until == NEVER


def test_it_is_quiet_until_the_first_thing_happens() -> None:
    calendar = Calendar()

    calendar.hold(entry(arrival=1, due_at=5.0))
    calendar.hold(entry(arrival=3, due_at=9.0))

    assert calendar.quiet_until == 5.0


def test_an_expiry_needs_no_look_at_delivery_but_counts_as_the_next_thing() -> None:
    calendar = Calendar()
    fleeting = entry(arrival=2)
    fleeting.expires_at = 3.0

    calendar.hold(entry(arrival=1, due_at=5.0))
    calendar.watch(fleeting)

    assert (calendar.quiet_until, calendar.next_time()) == (5.0, 3.0)


def test_after_another_look_it_is_quiet_until_what_is_left() -> None:
    calendar = Calendar()
    gone = entry(arrival=1, due_at=5.0)
    calendar.hold(gone)
    calendar.hold(entry(arrival=2, due_at=8.0))
    calendar.schedule.remove(gone)

    calendar.look_again()

    assert calendar.quiet_until == 8.0
