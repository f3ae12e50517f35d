from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.places import ORDINARY_PLACE, PLACE_OFFSET, place_at, place_of

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(MOMENTS, MOMENTS)
def test_due_places_are_in_the_order_of_the_due_times(one: datetime, other: datetime) -> None:
    places = [place_of(each.timestamp(), due_first=True) for each in (one, other)]

    assert (places[0] < places[1]) == (one < other)


@given(MOMENTS)
def test_a_due_place_is_the_one_a_database_computes_from_whole_microseconds(moment: datetime) -> None:
    microseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    assert place_of(moment.timestamp(), due_first=True) == microseconds - 2**62


@given(MOMENTS)
def test_a_due_place_stands_before_every_ordinary_one_and_fits_a_bigint(moment: datetime) -> None:
    assert -PLACE_OFFSET <= place_of(moment.timestamp(), due_first=True) < ORDINARY_PLACE


def test_only_a_message_with_a_time_in_a_due_first_queue_has_a_place_of_its_own() -> None:
    assert place_of(None, due_first=True) == ORDINARY_PLACE
    assert place_of(5.0, due_first=False) == ORDINARY_PLACE
    assert place_of(5.0, due_first=True) == place_at(5_000_000, due_first=True)
