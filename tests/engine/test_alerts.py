"""When the owner of a queue is told of it."""

import pytest

from django_mq.engine.alerts import Alert, AlertKind, AlertLimits, Alerts
from django_mq.errors import OutOfRange

MESSAGES, SIZE_BYTES, MESSAGE_SIZE, OLDEST_AGE = AlertKind


def kinds(alerts: list[Alert]) -> list[AlertKind]:
    return [alert.kind for alert in alerts]


def test_no_limits_mean_no_alerts() -> None:
    alerts = Alerts(AlertLimits())

    assert alerts.check_arrival(0.0, 10**9, 10**12, 10**9) == []
    assert alerts.check_age(0.0, 1e9) == []


@pytest.mark.parametrize(("count", "raised"), [(9, []), (10, [MESSAGES]), (11, [MESSAGES])])
def test_a_count_alerts_when_it_is_reached(count: int, raised: list[AlertKind]) -> None:
    alerts = Alerts(AlertLimits(messages=10))

    assert kinds(alerts.check_arrival(0.0, count, 0, 0)) == raised


@pytest.mark.parametrize(("size_bytes", "raised"), [(99, []), (100, [SIZE_BYTES])])
def test_bytes_alert_when_they_are_reached(size_bytes: int, raised: list[AlertKind]) -> None:
    alerts = Alerts(AlertLimits(size_bytes=100))

    assert kinds(alerts.check_arrival(0.0, 1, size_bytes, size_bytes)) == raised


@pytest.mark.parametrize(("size", "raised"), [(4, []), (5, [MESSAGE_SIZE])])
def test_a_large_message_alerts(size: int, raised: list[AlertKind]) -> None:
    alerts = Alerts(AlertLimits(message_size=5))

    assert kinds(alerts.check_arrival(0.0, 1, size, size)) == raised


@pytest.mark.parametrize(("age", "raised"), [(None, []), (60.0, []), (60.1, [OLDEST_AGE])])
def test_an_age_alerts_when_it_is_exceeded(age: float | None, raised: list[AlertKind]) -> None:
    alerts = Alerts(AlertLimits(oldest_age_seconds=60))

    assert kinds(alerts.check_age(0.0, age)) == raised


def test_one_arrival_may_alert_of_everything() -> None:
    alerts = Alerts(AlertLimits(messages=1, size_bytes=1, message_size=1))

    assert kinds(alerts.check_arrival(0.0, 1, 1, 1)) == [MESSAGES, SIZE_BYTES, MESSAGE_SIZE]


def test_an_alert_says_what_was_found_and_what_the_limit_is() -> None:
    (alert,) = Alerts(AlertLimits(messages=10)).check_arrival(0.0, 12, 0, 0)

    assert (alert.value, alert.limit) == (12, 10)
    assert str(alert) == "messages: 12, limit 10"


def test_an_alert_is_repeated_only_after_the_gap() -> None:
    alerts = Alerts(AlertLimits(messages=1), gap_seconds=30)

    raised = [now for now in (100, 101, 129.9, 130, 159.9, 160) if alerts.check_arrival(now, 1, 0, 0)]

    assert raised == [100, 130, 160]


def test_an_alert_at_the_beginning_of_time_is_due() -> None:
    alerts = Alerts(AlertLimits(oldest_age_seconds=1))

    assert [bool(alerts.check_age(now, 2)) for now in (0, 0, 29, 30)] == [True, False, False, True]


def test_a_large_message_is_told_of_every_time() -> None:
    alerts = Alerts(AlertLimits(message_size=5))

    assert [kinds(alerts.check_arrival(0.0, 1, 5, 5)) for _ in range(2)] == [[MESSAGE_SIZE], [MESSAGE_SIZE]]


def test_every_kind_has_a_gap_of_its_own() -> None:
    alerts = Alerts(AlertLimits(messages=2, size_bytes=10))
    alerts.check_arrival(0.0, 2, 0, 0)

    assert kinds(alerts.check_arrival(1.0, 3, 10, 10)) == [SIZE_BYTES]


def test_what_is_not_exceeded_starts_no_gap() -> None:
    alerts = Alerts(AlertLimits(messages=2))
    alerts.check_arrival(0.0, 1, 0, 0)

    assert kinds(alerts.check_arrival(1.0, 2, 0, 0)) == [MESSAGES]


def test_without_a_gap_every_arrival_alerts() -> None:
    alerts = Alerts(AlertLimits(messages=1), gap_seconds=0)

    assert all(alerts.check_arrival(5.0, 1, 0, 0) for _ in range(3))


def test_a_clock_set_back_silences_nothing() -> None:
    alerts = Alerts(AlertLimits(messages=1))
    alerts.check_arrival(10_000.0, 1, 0, 0)

    assert [bool(alerts.check_arrival(now, 1, 0, 0)) for now in (0, 1, 30)] == [True, False, True]


def test_limits_may_be_replaced() -> None:
    alerts = Alerts(AlertLimits(messages=10))

    alerts.limits = AlertLimits(messages=1)

    assert kinds(alerts.check_arrival(0.0, 1, 0, 0)) == [MESSAGES]


@pytest.mark.parametrize("name", ["messages", "size_bytes", "message_size", "oldest_age_seconds"])
@pytest.mark.parametrize("limit", [-1, float("nan")])
def test_a_limit_is_not_negative(name: str, limit: float) -> None:
    with pytest.raises(OutOfRange):
        AlertLimits(**{name: limit})  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", [-1, float("nan")])
def test_a_gap_is_not_negative(gap: float) -> None:
    with pytest.raises(OutOfRange):
        Alerts(AlertLimits(), gap)
