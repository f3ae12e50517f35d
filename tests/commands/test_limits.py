"""Which keys are over their limits: in the command and the metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError

from django_mq import conf
from django_mq.engine.decisions.keyed_limits import told_apart
from django_mq.integrations.prometheus.figures import read
from django_mq.limits import concurrency, declared, throttle
from django_mq.models import LimitException
from django_mq.stores.registry import shared_store
from tests.stores.builders import claim, declare, open_session, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.commands.conftest import Run


@pytest.fixture(autouse=True)
def waiting(database: str) -> Iterator[None]:
    """A queue with a key over a throttle, and one over a number of slots, whose name is not to be trusted."""
    store: Any = shared_store(database)
    declare(store, "orders")
    throttle("orders", amount=1, seconds=30, key="group", type="mail", name="api")
    concurrency("orders", 1, key="group", type="job", name="slots")
    for _ in range(3):
        publish(store, group_key="17", type="mail")
    for _ in range(2):
        publish(store, group_key="<b>\x1b", type="job")
    assert len(claim(store, open_session(store), slots=10)) == 2
    yield
    declared.forget("orders")
    conf.remove_extension(declared.NAME)


def test_the_command_says_how_many_wait_since_when_and_until_when(database: str, run: Run) -> None:
    first, second = json.loads(run("mq_limits", "orders", "--json"))["waiting"]

    assert (first["limit"], first["key"], first["parked"]) == ("api", "17", 2)
    assert (second["limit"], second["key"], second["parked"]) == ("slots", "<b>\x1b", 1)
    assert first["since"] < first["next_at"]
    assert second["next_at"] is None
    lines = run("mq_limits").splitlines()
    assert lines[0].startswith("orders api 17: 2 messages parked since ")
    assert lines[1].endswith("the next begins when one that runs has ended")
    assert "\x1b" not in lines[1]


def test_the_metrics_count_them_for_each_limit_and_name_none(database: str) -> None:
    metrics = {metric.name: metric for metric in read(database)}

    keys = metrics["django_mq_limit_waiting_keys"].samples
    assert [(each.labels, each.value) for each in keys] == [
        ({"queue": "orders", "limit": "api"}, 1),
        ({"queue": "orders", "limit": "slots"}, 1),
    ]
    parked = [each.value for each in metrics["django_mq_messages"].samples if each.labels["state"] == "parked"]
    assert parked == [3]


def test_what_an_operator_allows_is_checked_before_it_is_changed(database: str, run: Run) -> None:
    def allowed() -> list[tuple[str, str, int]]:
        rows = LimitException.objects.using(database).order_by("limit_name", "limited_key")
        return list(rows.values_list("limit_name", "limited_key", "at_once"))

    run("mq_limits", "orders", "--allow", "slots", "17", "--at-once", "5")
    run("mq_limits", "orders", "--allow", "all", "", "--at-once", "6")
    run("mq_limits", "orders", "--allow", "slots", "x" * 250, "--at-once", "7")
    known = allowed()
    assert known == [("all", "", 6), ("slots", "17", 5), ("slots", told_apart("x" * 250), 7)]
    for wrong in (
        ("--at-once", "0"),
        ("--amount", "-5", "--seconds", "1"),
        ("--amount", "1e-320", "--seconds", "1"),
        (),
    ):
        with pytest.raises(CommandError):
            run("mq_limits", "orders", "--allow", "slots", "17", *wrong)
    with pytest.raises(CommandError, match="orders slots 18 has no exception"):
        run("mq_limits", "orders", "--forget", "slots", "18")
    for wrong in (("--at-once", "3"), ("--forget", "slots", "17", "--at-once", "3")):
        with pytest.raises(CommandError, match="with --allow, without --forget"):
            run("mq_limits", "orders", *wrong)
    assert allowed() == known

    run("mq_limits", "orders", "--forget", "slots", "x" * 250)
    assert allowed() == known[:2]


def test_the_doctor_names_exceptions_without_an_effect(database: str) -> None:
    for limit, given in {
        "api": {"at_once": 1},
        "slots": {"amount": 1, "seconds": 1},
        "gone": {"at_once": 1},
    }.items():
        LimitException.objects.using(database).create(
            queue_name="orders", limit_name=limit, limited_key="17", **given
        )
    LimitException.objects.using(database).create(
        queue_name="orders", limit_name="slots", limited_key="18", at_once=2
    )

    assert [(found.about, found.sentence) for found in declared.find(database)] == [
        ("exception orders api 17", "The limit 'api' says how many begin in a time: set a rate, and not at_once."),
        ("exception orders slots 17", "The limit 'slots' says how many run at once: set at_once, and not a rate."),
        ("exception orders gone 17", "The queue 'orders' has no limit 'gone'; the code declares api, slots."),
    ]
