"""Rows follow what code declares, but for what an operator has changed; an old worker changes nothing."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from django.core.checks import run_checks

from django_mq.api import consumer, periodic
from django_mq.delivery.consumer.handlers import forget
from django_mq.errors import ConfigurationError, WrongSchedule
from django_mq.models import Message
from django_mq.periodic import decorator, editor
from django_mq.periodic.declared import declare_all, follow, source_of
from django_mq.periodic.decorator import Declaration, declaration_of, declarations
from django_mq.periodic.models import PeriodicMessage
from django_mq.periodic.values import USUAL
from django_mq.stores.registry import shared_store
from tests.integrations.tasks.conftest import use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(decorator, "_declared", [])
    yield
    forget("reports")


def a_declaration(name: str = "report", **values: Any) -> Declaration:
    usual = USUAL | {"cron": "0 3 * * *", "queue": "reports"}
    return declaration_of(name, usual | values)


def note(n: int) -> int:
    """Return what it was given."""
    return n


def test_a_time_to_live_may_be_a_timedelta() -> None:
    assert a_declaration(options={"ttl": timedelta(minutes=1)}).values["options"] == {"ttl": 60.0}


def lines(alias: str) -> dict[str, str]:
    return dict(PeriodicMessage.objects.using(alias).values_list("name", "cron"))


def test_the_rows_follow_the_code_and_an_old_worker_restores_nothing(alias: str) -> None:
    old = [a_declaration("a"), a_declaration("b")]
    new = [a_declaration("a", cron="0 4 * * *"), a_declaration("c")]

    assert follow(alias, "code", old) == 2
    assert follow(alias, "code", old) == 0
    assert follow(alias, "code", new) == 3
    assert lines(alias) == {"a": "0 4 * * *", "c": "0 3 * * *"}
    assert follow(alias, "code", old) == 0
    assert lines(alias) == {"a": "0 4 * * *", "c": "0 3 * * *"}

    assert follow(alias, "code", old, anyway=True) == 3
    assert lines(alias) == {"a": "0 3 * * *", "b": "0 3 * * *"}
    assert follow(alias, "code", new) == 0
    assert follow(alias, "code", []) == 2
    assert lines(alias) == {}


def test_what_an_operator_changed_is_kept_and_shown(alias: str) -> None:
    follow(alias, "code", [a_declaration()])
    row = PeriodicMessage.objects.using(alias).get()
    row.cron = "0 5 * * *"
    editor.save(row, using=alias)
    follow(alias, "code", [a_declaration(cron="0 4 * * *", tz="Europe/Berlin")])

    row.refresh_from_db()
    assert (row.cron, row.tz, row.changes) == ("0 5 * * *", "Europe/Berlin", ["cron"])


def test_rows_of_operators_and_other_sources_are_left_alone(alias: str) -> None:
    mine = PeriodicMessage(name="report", queue="reports", every_seconds=60.0)
    editor.save(mine, using=alias)

    assert follow(alias, "code", [a_declaration()]) == 0
    assert follow(alias, "beat", [a_declaration("other")]) == 1
    assert follow(alias, "code", []) == 0
    assert set(lines(alias)) == {"report", "other"}


def test_two_projects_in_one_database_leave_each_other_alone(
    alias: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    def deploy(project: str, *names: str, anyway: bool = False) -> int:
        settings.DJANGO_MQ = {**settings.DJANGO_MQ, "PERIODIC_PROJECT": project}
        return follow(alias, source_of("code"), list(map(a_declaration, names)), anyway=anyway)

    assert [deploy("shop", "a", "both"), deploy("billing", "b", "both"), deploy("shop", "a", "c")] == [2, 1, 2]
    assert set(lines(alias)) == {"a", "b", "c"}
    assert "'both' is not made: one that code of shop has declared has its name" in caplog.text
    assert deploy("billing", "a", anyway=True) == 1
    assert deploy("shop") == 1
    assert set(lines(alias)) == {"a"}


def test_handlers_and_tasks_are_declared_beside_their_code(alias: str, settings: Settings) -> None:
    use(settings)
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "PERIODIC_PROJECT": "unit"}
    add = import_module("tests.integrations.tasks.work").add
    app = Celery("unit", broker=f"django-mq:///{alias}", set_as_current=False)

    @periodic("0 3 * * *", tz="Europe/Berlin", body={"n": 1})
    @periodic(every=60, name="each minute")
    @consumer("reports", type="report")
    def handle(_: Any) -> None: ...

    periodic("0 4 * * *", args=[1])(app.task(name="note", shared=False)(note))
    periodic("0 5 * * *", args=[1, 2])(add)

    found = {each.name: each.values for each in declarations().right}
    assert {name: (each["kind"], each["queue"], each["target"]) for name, each in found.items()} == {
        f"{__name__}.{test_handlers_and_tasks_are_declared_beside_their_code.__name__}.<locals>.handle": (
            "message",
            "reports",
            "report",
        ),
        "each minute": ("message", "reports", "report"),
        "note": ("celery", "", "note"),
        add.module_path: ("task", "", add.module_path),
    }
    assert declare_all(shared_store(alias), 1000) == 4
    assert PeriodicMessage.objects.using(alias).filter(source="code of unit").count() == 4
    assert Message.objects.using(alias).filter(type="report").count() >= 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cron": "0 0 30 2 *"}, "is wrong"),
        ({"cron": "0 3 * * *", "tz": "Mars"}, "no time zone"),
        ({"every": 0}, "every_seconds is 0"),
        ({}, "a cron line or every_seconds"),
        ({"cron": "0 3 * * *", "missed": "never"}, "missed is 'never'"),
        ({"cron": "0 3 * * *", "name": "n" * 201}, "wrong name"),
        ({"cron": "0 3 * * *", "name": "null\0"}, "wrong name"),
        ({"cron": "0 3 * * *", "body": object()}, "wrong value of body"),
        ({"cron": "0 3 * * *", "body": {"n": float("nan")}}, "wrong value of body"),
        ({"cron": "0 3 * * *", "kwargs": {"text": "\0"}}, "null character"),
        ({"cron": "0 3 * * *", "args": "abc"}, "wrong arguments"),
        ({"cron": "0 3 * * *", "kwargs": [1]}, "wrong arguments"),
        ({"cron": "0 3 * * *", "options": "abc"}, "has the options"),
    ],
)
def test_impossible_declarations_are_refused_where_they_stand(given: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigurationError, WrongSchedule), match=words):
        periodic(**given)


def test_a_wrong_declaration_is_named_and_the_others_are_declared(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    follow(alias, source_of("code"), [a_declaration("same"), a_declaration("gone")])
    periodic("0 3 * * *")(len)
    for line in ("0 3 * * *", "0 4 * * *"):
        periodic(line, name="same")(consumer("reports")(print))
    periodic("0 5 * * *", name="right")(consumer("reports")(print))

    assert declare_all(shared_store(alias), 100) == 2

    assert lines(alias) == {"right": "0 5 * * *", "same": "0 3 * * *"}
    assert caplog.text.count("is left as it was") == 2
    found = run_checks(tags=["django_mq_handlers"])
    assert [each.id for each in found] == ["django_mq.E016"] * 2
    assert "above @consumer or @task" in found[0].msg
    assert "Two periodic messages have the name 'same'" in found[1].msg
