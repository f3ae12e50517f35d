"""The ticks of cron lines and intervals: at changes of clocks, and beside another library."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from django_mq.errors import WrongSchedule
from django_mq.periodic.ticks import Schedule, schedule

ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut"),
    *("Europe/Dublin", "Africa/Cairo", "Pacific/Auckland", "America/Havana", "Africa/Casablanca"),
)


def local(found: Schedule, moment: datetime, number: int) -> list[str]:
    return [f"{tick.astimezone(found.zone):%d %H:%M %z}" for tick in islice(found.after(moment), number)]


@pytest.mark.parametrize(
    ("line", "day", "ticks"),
    [
        # Spring: 02:00 to 03:00 does not exist on the 29th.
        ("30 2 * * *", (3, 28, 12), ["29 03:00 +0200", "30 02:30 +0200"]),
        ("0,30 2,3 * * *", (3, 28, 12), ["29 03:00 +0200", "29 03:30 +0200", "30 02:00 +0200"]),
        ("*/30 * * * *", (3, 29, 1), ["29 01:30 +0100", "29 03:00 +0200", "29 03:30 +0200"]),
        # Autumn: 02:00 to 03:00 comes twice on the 25th.
        ("30 2 * * *", (10, 24, 12), ["25 02:30 +0200", "26 02:30 +0100"]),
        ("30 * * * *", (10, 25, 2), ["25 02:30 +0200", "25 02:30 +0100", "25 03:30 +0100"]),
    ],
)
def test_a_change_of_the_clock_follows_the_stated_rules(
    line: str, day: tuple[int, int, int], ticks: list[str]
) -> None:
    found = schedule(cron=line, tz="Europe/Berlin")

    assert local(found, datetime(2026, *day, tzinfo=found.zone), len(ticks)) == ticks


def changes(zone: ZoneInfo) -> list[datetime]:
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(24 * 365)]
    return [
        hour
        for hour in hours
        if hour.astimezone(zone).utcoffset() != (hour - timedelta(hours=1)).astimezone(zone).utcoffset()
    ]


def test_the_next_tick_does_not_depend_on_where_the_last_look_was() -> None:
    dice = random.Random(1)
    minutes, hours = ("0", "30", "15", "*/20", "*", "5,35"), ("*", "2", "1", "0", "1-3", "*/2", "23", "2,3")
    for name in ZONES:
        for change in changes(ZoneInfo(name)):
            found = schedule(cron=f"{dice.choice(minutes)} {dice.choice(hours)} * * *", tz=name)
            begin, end = change - timedelta(hours=30), change + timedelta(hours=30)
            ticks = list(takewhile(lambda tick, end=end: tick <= end, found.after(begin)))
            assert ticks == sorted(set(ticks))
            for minute in range(-200, 200, 7):
                moment = change + timedelta(minutes=minute)
                assert found.next(moment) == next((tick for tick in ticks if tick > moment), found.next(end))


def some_field(dice: random.Random, least: int, most: int) -> str:
    first = dice.randint(least, most - 1)  # the other library reads "28-28" as "*"
    return dice.choice(["*", "*", f"*/{dice.randint(2, 9)}", str(first), f"{first}-{most}", f"{least},{first}"])


def test_the_ticks_of_2000_random_lines_are_those_of_another_library() -> None:
    dice = random.Random(33)
    for _ in range(2000):
        fields = [some_field(dice, *bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12))]
        # With a day of the month and one of the week, the two libraries read "*/2" differently.
        fields.append(some_field(dice, 0, 6) if fields[2] == "*" else "*")
        line, name = " ".join(fields), dice.choice(ZONES)
        zone = ZoneInfo(name)
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=dice.randrange(365 * 24 * 60))
        theirs = croniter(line, moment.astimezone(zone).replace(tzinfo=None))
        for tick in islice(schedule(cron=line, tz=name).after(moment), 4):
            wall = theirs.get_next(datetime)
            near = [moment - timedelta(hours=25), tick - timedelta(hours=25), tick + timedelta(hours=25)]
            if {each.astimezone(zone).utcoffset() for each in near} != {tick.astimezone(zone).utcoffset()}:
                break
            assert tick.astimezone(zone).replace(tzinfo=None) == wall, (line, name, moment)


def test_an_interval_counts_elapsed_seconds_from_its_start() -> None:
    start = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)
    found = schedule(every_seconds=10, start_at=start, end_at=start + timedelta(seconds=25))

    assert [tick.second for tick in found.after(start - timedelta(days=1))] == [7, 17, 27]
    assert found.next(start + timedelta(seconds=20)) is None
    assert schedule(every_seconds=1.5).next(start) is not None


def test_a_long_outage_is_not_walked_through() -> None:
    first = datetime(2000, 1, 1, tzinfo=UTC)
    until = datetime(2026, 1, 1, tzinfo=UTC)

    assert len(schedule(cron="* * * * *").last(first, until, 5)) == 5
    assert schedule(every_seconds=1).last(first, until, 2) == [until - timedelta(seconds=1), until]
    assert schedule(cron="0 0 29 2 *").last(first, until, 100)[-1] == datetime(2024, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cron": ""}, "Wrong number of fields"),
        ({"cron": "0 0 30 2 *"}, "is wrong"),
        ({"cron": "61 * * * *"}, "Bad minute"),
        ({"cron": "* " * 200}, "at most 255"),
        ({"cron": None}, "is no text"),
        ({"cron": "0 3 * * *", "tz": "Mars/Base"}, "no time zone"),
        ({"cron": "0 3 * * *", "tz": "../../etc/passwd"}, "no time zone"),
        ({"cron": "0 3 * * *", "tz": ""}, "no time zone"),
        ({"cron": "0 3 * * *", "tz": None}, "no time zone"),
    ],
)
def test_a_wrong_line_or_zone_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(WrongSchedule, match=words):
        schedule(**given)


def test_a_schedule_is_said_in_words() -> None:
    assert schedule(cron="0 3 * * 1", tz="Europe/Berlin").sentence() == "At 03:00 on Monday, Europe/Berlin"
    words = {30: "30 seconds", 1.5: "1.5 seconds", 1: "second", 90: "90 seconds", 5400: "90 minutes", 86400: "day"}
    for seconds, said in words.items():
        assert schedule(every_seconds=seconds).sentence() == f"Every {said}"
