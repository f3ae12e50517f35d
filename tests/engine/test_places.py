from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.places import ORDINARY_PLACE, PLACE_OFFSET, due_place, place_of

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(MOMENTS, MOMENTS)
def test_due_places_are_in_the_order_of_the_due_times(one: datetime, other: datetime) -> None:
    places = due_place(one.timestamp()), due_place(other.timestamp())

    assert (places[0] < places[1]) == (one < other)


@given(MOMENTS)
def test_a_due_place_is_the_one_a_database_computes_from_whole_microseconds(moment: datetime) -> None:
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    assert due_place(moment.timestamp()) == microseconds - 2**62


@given(MOMENTS)
def test_a_due_place_stands_before_every_ordinary_one_and_fits_a_bigint(moment: datetime) -> None:
    assert -PLACE_OFFSET <= due_place(moment.timestamp()) < ORDINARY_PLACE


def test_only_a_message_with_a_time_in_a_due_first_queue_has_a_place_of_its_own() -> None:
    assert place_of(None, due_first=True) == ORDINARY_PLACE
    assert place_of(5.0, due_first=False) == ORDINARY_PLACE
    assert place_of(5.0, due_first=True) == due_place(5.0)
