"""A recorded day under other settings, on Spark."""

from __future__ import annotations

import io
import json
import random
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from django_mq import conf
from django_mq.limits import declared, rate_limit, throttle
from django_mq.models import History
from django_mq.pipeline.whatif.job import REALITY
from django_mq.pipeline.whatif.scenario import Scenario
from django_mq.pipeline.whatif.simulation import Arrival, simulate
from tests.pipeline.conftest import MORNING, finished

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.django_db(databases=["default"], transaction=True)


def recorded_day(consumers: int) -> None:
    """A day that some consumers have worked through, strictly by priority: the engine says when."""
    dice = random.Random(5)
    at, trace = 0.0, []
    for _ in range(400):
        at += dice.expovariate(1.8)
        trace.append(Arrival(round(at, 6), dice.choice([2, 8]), round(dice.expovariate(1.0), 6)))
    waits = simulate(trace, Scenario(name="truth", consumers=consumers)).waits
    rows = []
    for number, (arrival, wait) in enumerate(zip(trace, waits, strict=True)):
        ready = MORNING + timedelta(seconds=arrival.at)
        assert wait is not None
        claimed = ready + timedelta(seconds=wait)
        done = {"claimed_at": claimed, "finished_at": claimed + timedelta(seconds=arrival.service)}
        rows.append(finished(number, published_at=ready, priority=arrival.priority, **done))
    History.objects.bulk_create(rows)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("mq_spark", "whatif", "--queue", "orders", *arguments, stdout=out)
    return out.getvalue()


def test_the_recorded_settings_give_what_really_happened_and_others_do_not(spark: SparkSession) -> None:
    recorded_day(consumers=2)

    rows: list[dict[str, Any]] = json.loads(
        run(
            "--day",
            "2026-03-02",
            "--json",
            "--scenario",
            "more:consumers=4",
            "--scenario",
            "fifo:consumers=2,kind=fifo",
        )
    )

    p95 = {(row["scenario"], row["level"]): row["p95"] for row in rows}
    for level in (-1, 2, 8):
        assert p95["as recorded", level] == pytest.approx(p95[REALITY, level], rel=0.02, abs=0.01)
    assert p95["more", -1] < p95[REALITY, -1] / 2
    assert p95["fifo", 8] > p95[REALITY, 8] * 1.5
    assert [row["rank"] for row in rows if row["level"] == -1] == [1, 2, 3, 4]
    assert next(row for row in rows if row["level"] == -1)["scenario"] == "more"


def test_the_command_prints_a_table_and_says_what_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    History.objects.bulk_create([finished(number) for number in range(1, 9)])

    printed = run("--day", "2026-03-02")

    assert printed.splitlines()[0] == "1 consumers at once, as recorded."
    assert "one consumer more" in printed
    with pytest.raises(CommandError, match="no message of that queue was done on that day"):
        run("--day", "2031-03-02")
    with pytest.raises(CommandError, match="there is no setting 'colour'"):
        run("--day", "2026-03-02", "--scenario", "x:colour=red")


def test_keys_are_simulated_as_far_as_the_history_has_them(
    spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    rate_limit("orders", amount=1, seconds=3600, key="header:tenant")
    throttle("orders", amount=1, seconds=3600, key="body:host", name="host")
    request.addfinalizer(lambda: conf.remove_extension(declared.NAME))
    request.addfinalizer(lambda: declared.forget("orders"))
    rows = [finished(number, headers={"tenant": "acme" if number < 20 else "small"}) for number in range(1, 25)]
    dropped = finished(30, headers={"tenant": "acme"}, outcome=History.Outcome.LIMITED, claimed_at=None)
    History.objects.bulk_create([*rows, dropped])

    printed = run(
        *("--day", "2026-03-02"),
        *("--scenario", "waits:consumers=9,throttle=1/600/2 header:tenant"),
        *("--scenario", "fair:due_order=keep_place,fair_by=tenant"),
    )

    assert printed.splitlines()[1] == (
        "Left out of 'as recorded': the limit 'host' with the key 'body:host': the history has the bodies of 0 of"
        " 25 messages; set history_body for the queue, or use a header."
    )
    lines = [re.split(r"  +", line.strip()) for line in printed.splitlines()]
    told = {(line[0], line[2]): line for line in lines if len(line) > 3 and line[0] in {"all", "acme", "small"}}
    assert told["all", REALITY][-1] == "1 limited"
    assert told["all", "as recorded"][-1] == "23 limited"
    assert told["small", "waits"][3] == told["small", "fair"][3] == "5"
    with pytest.raises(
        CommandError, match="'x' reads the key 'body:host' of messages, but the history has the bodies"
    ):
        run("--day", "2026-03-02", "--scenario", "x:throttle=1/1 body:host")
    with pytest.raises(CommandError, match="reads the key 'header:region' of messages, but no message has it"):
        run("--day", "2026-03-02", "--scenario", "x:unique=header:region")
