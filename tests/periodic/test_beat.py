"""What celery beat has becomes rows: its setting, and the tables of django-celery-beat."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar
from django.core.management import call_command
from django.db import connections

from django_mq.integrations.celery.beat import entries
from django_mq.periodic.models import PeriodicMessage

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_the_setting_of_celery_is_read_as_it_is() -> None:
    app = Celery("unit", broker="memory://", set_as_current=False)
    app.conf.timezone = "Europe/Berlin"
    app.conf.beat_schedule = {
        "daily": {"task": "note", "schedule": crontab(minute="0", hour="3", day_of_week="mon-fri"), "args": (1,)},
        "often": {"task": "note", "schedule": 30.0, "options": {"queue": "quick", "priority": 9}},
        "span": {"task": "note", "schedule": timedelta(minutes=1), "kwargs": {"a": 1}},
        "object": {"task": "note", "schedule": schedule(timedelta(seconds=5))},
        "sun": {"task": "note", "schedule": solar.__new__(solar)},
        "both": {"task": "note", "schedule": crontab(day_of_month="13", day_of_week="5")},
        "signed": {"task": "note", "schedule": 1.0, "options": {"link": "x"}},
        "zero": {"task": "note", "schedule": 0},
    }
    found = {each.name: each for each in entries(app)}
    values = {name: each.declaration.values for name, each in found.items() if each.declaration}

    assert {name: (each["cron"], each["every_seconds"], each["queue"]) for name, each in values.items()} == {
        "daily": ("0 3 * * mon-fri", None, ""),
        "often": ("", 30.0, "quick"),
        "span": ("", 60.0, ""),
        "object": ("", 5.0, ""),
    }
    assert (values["daily"]["tz"], values["daily"]["args"]) == ("Europe/Berlin", [1])
    assert values["often"]["options"] == {"priority": 9}
    problems = {name: each.problem for name, each in found.items() if each.declaration is None}
    assert "solar" in problems["sun"]
    assert "both" in problems["both"]
    assert "'link'" in problems["signed"]
    assert "every_seconds is 0" in problems["zero"]


TABLES = """
CREATE TABLE django_celery_beat_crontabschedule (id integer, minute varchar(240), hour varchar(96),
    day_of_month varchar(124), month_of_year varchar(64), day_of_week varchar(64), timezone varchar(63));
CREATE TABLE django_celery_beat_intervalschedule (id integer, every integer, period varchar(24));
CREATE TABLE django_celery_beat_periodictask (name varchar(200), task varchar(200), args text, kwargs text,
    queue varchar(200), exchange varchar(200), routing_key varchar(200), headers text, priority integer,
    expires {time}, expire_seconds integer, one_off {boolean}, start_time {time}, enabled {boolean},
    crontab_id integer, interval_id integer, solar_id integer, clocked_id integer);
INSERT INTO django_celery_beat_crontabschedule VALUES (1, '0', '3', '*', '*', '1', 'Europe/Berlin');
INSERT INTO django_celery_beat_intervalschedule VALUES (1, 5, 'minutes');
INSERT INTO django_celery_beat_periodictask VALUES
    ('daily', 'note', '[1]', '{{}}', 'quick', NULL, NULL, '{{}}', 9, NULL, NULL, {false}, '2026-01-01 00:00:00',
     {true}, 1, NULL, NULL, NULL),
    ('off', 'note', '[]', '{{"a": 1}}', NULL, NULL, NULL, '{{}}', NULL, NULL, 60, {false}, NULL,
     {false}, NULL, 1, NULL, NULL),
    ('sun', 'note', '[]', '{{}}', NULL, NULL, NULL, '{{}}', NULL, NULL, NULL, {false}, NULL,
     {true}, NULL, NULL, 1, NULL),
    ('once', 'note', '[]', '{{}}', NULL, NULL, NULL, '{{}}', NULL, NULL, NULL, {true}, NULL,
     {true}, NULL, 1, NULL, NULL);
"""
NAMES = ("crontabschedule", "intervalschedule", "periodictask")


def fill(alias: str = "default", *, one_off: bool = True) -> None:
    """Make the tables, with their entries; without those that cannot be imported if ``one_off`` is false."""
    connection = connections[alias]
    is_postgresql = connection.vendor == "postgresql"
    kinds = {
        "time": "timestamptz" if is_postgresql else "datetime",
        "boolean": "boolean" if is_postgresql else "bool",
        "true": "true" if is_postgresql else "1",
        "false": "false" if is_postgresql else "0",
    }
    with connection.cursor() as cursor:
        for statement in TABLES.format(**kinds).strip().rstrip(";").split(";\n"):
            cursor.execute(statement)
        if not one_off:
            cursor.execute("DELETE FROM django_celery_beat_periodictask WHERE name IN ('sun', 'once')")


@pytest.fixture
def tables(alias: str) -> Iterator[str]:
    """The columns of django-celery-beat that are read, with four entries."""
    fill(alias)
    yield alias
    with connections[alias].cursor() as cursor:
        for name in NAMES:
            cursor.execute(f"DROP TABLE django_celery_beat_{name}")


@pytest.mark.skipif(find_spec("django_celery_beat") is None, reason="its columns are compared with its models")
def test_the_columns_are_those_of_django_celery_beat() -> None:
    import ast
    from pathlib import Path

    spec = find_spec("django_celery_beat")
    assert spec is not None
    assert spec.origin is not None
    names = {
        target.id
        for node in ast.walk(ast.parse((Path(spec.origin).parent / "models.py").read_text()))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert names >= {"minute", "day_of_week", "timezone", "every", "period", "expire_seconds", "one_off", "solar"}


def test_django_celery_beat_is_imported_and_what_is_not_possible_is_named(tables: str) -> None:
    out, err = StringIO(), StringIO()
    for options in ({"dry_run": True}, {}):
        with pytest.raises(SystemExit):
            call_command("mq_periodic", "import-celery-beat", database=tables, stdout=out, stderr=err, **options)

    rows: dict[str, Any] = {row.name: row for row in PeriodicMessage.objects.using(tables)}
    assert sorted(rows) == ["daily", "off"]
    daily, off = rows["daily"], rows["off"]
    assert (daily.cron, daily.tz, daily.queue, daily.args) == ("0 3 * * 1", "Europe/Berlin", "quick", [1])
    assert (daily.options, daily.start_at) == ({"priority": 9}, datetime(2026, 1, 1, tzinfo=UTC))
    assert (off.every_seconds, off.is_paused, off.options, off.kwargs) == (300.0, True, {"expires": 60}, {"a": 1})
    assert out.getvalue().splitlines() == ["Would import: daily, off.", "Imported: daily, off."]
    assert "Left sun: It is a solar schedule" in err.getvalue()
    assert "Left once: It runs once" in err.getvalue()
