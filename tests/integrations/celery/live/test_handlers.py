"""Native handlers in a Celery worker are Celery's work: limited, revoked, reported; its companions see them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import django
import pytest
from celery.events import EventReceiver
from django.utils import timezone

from django_mq.api import Effect, cancel, get_result, publish
from django_mq.models import Attempt, History, WorkerSession
from tests.conftest import skip_or_fail
from tests.integrations.celery.live.hearing import publish_until
from tests.services.server import UnavailableError
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.conftest import Sites
    from tests.journeys.site import Site
    from tests.journeys.worker import Worker

pytestmark = pytest.mark.once
APP = "tests.integrations.celery.live.watched"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
#: What a publisher that is traced writes, by OpenTelemetry's and by Sentry's way.
TRACED = {"traceparent": f"00-{TRACE}-{SPAN}-01", "sentry-trace": f"{TRACE}-{SPAN}-1"}
#: Django has the interface from 6.0 on, and this package before.
TASKS = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
#: Handlers that choose the outcome of their message: no failure is reported.
CHOSEN = ("well", "release", "reject", "retry")


@pytest.fixture
def shop(sites: Sites, redis_url: str) -> Iterator[Site]:
    """A site on which a handler that fails is called again at once, twice in all."""
    with sites("postgresql", SESSION_SECONDS=3, MAINTENANCE_SECONDS=0.5, REDIS_URL=redis_url) as site:
        for queue in ("orders", "booked", "slow", "mails", "ruled"):
            site.declare(queue, max_attempts=2, backoff_seconds=0, backoff_jitter=0)
        yield site


@contextmanager
def watched(site: Site, *options: str, by: str = "", **environment: str) -> Iterator[Worker]:
    with site.worker(*options, JOURNEY_APPS=APP, WATCHED_BY=by, **environment) as worker:
        yield worker


def send(site: Site, *bodies: str, queue: str = "orders", **options: Any) -> list[str]:
    return [str(publish(queue, body, using=site.alias, **options)) for body in bodies]


def ended(site: Site, *, finished: int, dead: int) -> None:
    """Wait until so many messages are in the history, and so many dead; nothing else is left."""

    def is_done() -> bool:
        return len(site.finished()) == finished and site.states() == ({"dead": dead} if dead else {})

    wait_until(is_done, lambda: f"{finished} finished, {dead} dead: {len(site.finished())}, {site.story()}")


def test_what_celery_ends_counts_as_a_failed_attempt_and_its_limits_hold(shop: Site) -> None:
    with watched(shop) as worker:
        send(shop, "die")
        send(shop, "slow", queue="slow")
        ended(shop, finished=1, dead=1)
        assert worker.stop() == 0

    assert [line["attempt"] for line in shop.diary(name="die")] == [1, 2]
    assert len(shop.diary(name="slow")) <= 2  # a limit may be over before the first word
    errors = Attempt.objects.using(shop.alias).values_list("error", flat=True)
    assert sorted(errors) == ["HandlerTimeout", "HandlerTimeout", "WorkerLostError"]


def test_a_handler_has_rules_of_its_own_and_is_told_of_deaths(shop: Site) -> None:
    with watched(shop) as worker:
        fail, missing, _ = send(shop, "fail", "missing", "busy", queue="ruled")
        ended(shop, finished=3, dead=2)  # the third and two notices
        assert worker.stop() == 0

    assert [line["attempt"] for line in shop.diary(name="fail")] == [1, 2, 3]
    assert [line["attempt"] for line in shop.diary(name="missing")] == [1]
    assert [(line["attempt"], line["releases"]) for line in shop.diary(name="busy")] == [(1, 0), (1, 1)]
    assert sorted((line["body"], line["of"]) for line in shop.diary(name="dead")) == [
        ("fail", fail),
        ("missing", missing),
    ]


def test_a_handler_that_raises_what_celery_might_take_for_its_own_fails_like_any_other(shop: Site) -> None:
    with watched(shop) as worker:
        send(shop, "ignore", "leave", "memory", "later", "fail", "well")
        ended(shop, finished=1, dead=5)
        assert worker.stop() == 0

    assert [line["name"] for line in shop.diary()].count("fail") == 2
    errors = Attempt.objects.using(shop.alias).values_list("error", flat=True)
    assert sorted(errors) == sorted(2 * ["Ignore", "SystemExit", "MemoryError", "HandlerNotRun", "ValueError"])


def test_the_success_of_a_transactional_handler_is_no_void_settlement(shop: Site) -> None:
    with watched(shop) as worker:
        send(shop, *["an order"] * 5, queue="booked")
        ended(shop, finished=10, dead=0)
        assert worker.stop() == 0
    assert f"{APP}.consumers." in worker.log
    assert "of 'booked'" in worker.log

    assert set(outcomes(shop).values()) == {History.Outcome.ACCEPTED}
    assert "void" not in worker.log


def test_a_result_is_kept_by_the_process_of_the_pool_and_no_settlement_is_void(shop: Site) -> None:
    with watched(shop) as worker:
        ids = send(shop, *["answer"] * 5, "well", keep_result_seconds=60)
        for each in ids[:5]:
            assert get_result(each, timeout_seconds=PATIENCE_SECONDS, using=shop.alias) == {"of": each}
        assert get_result(ids[5], timeout_seconds=PATIENCE_SECONDS, using=shop.alias) is None
        ended(shop, finished=6, dead=0)
        assert worker.stop() == 0

    assert len(shop.diary(name="answer")) == 5
    assert "void" not in worker.log


def test_events_tell_of_each_failed_attempt(shop: Site) -> None:
    seen: list[tuple[str, str]] = []

    def hear(event: dict[str, Any]) -> None:
        if event["type"].startswith("task-") and "uuid" in event:
            seen.append((event["type"], event["uuid"]))

    with watched(shop, "-E"), shop.app.connection_for_read() as connection:
        receiver = EventReceiver(connection, handlers={"*": hear}, app=shop.app)

        def heard(body: str, kind: str) -> str:
            """Publish until an event of this kind comes; return the message's id."""
            ids: set[str] = set()
            publish_until(
                lambda: any(told == kind and uuid in ids for told, uuid in seen),
                connection=bound,
                publish=lambda: ids.update(send(shop, body)),
                story=lambda: f"{kind}, but came {seen}: {shop.story()}",
            )
            return next(uuid for told, uuid in seen if told == kind and uuid in ids)

        with receiver.consumer_context(wakeup=False) as (bound, _, _):
            heard("well", "task-succeeded")
            failed = heard("fail", "task-failed")

    assert ("task-started", failed) in seen


def outcomes(shop: Site) -> dict[str, int]:
    """Return what the history says of each message."""
    return {str(line.message_id): line.outcome for line in shop.finished()}


def test_a_revoked_message_is_taken_out_of_its_queue(shop: Site) -> None:
    with watched(shop) as worker:
        (revoked,) = send(shop, "fail", deliver_at=timezone.now() + timedelta(hours=1))
        assert worker.name in shop.app.control.revoke(revoked, reply=True, timeout=PATIENCE_SECONDS, limit=1)[0]
        shop.wait_until_settled()
        assert worker.stop() == 0

    assert outcomes(shop) == {revoked: History.Outcome.CANCELLED}
    assert not shop.diary(name="fail")


def test_a_running_handler_that_is_revoked_is_ended_and_not_tried_again(shop: Site) -> None:
    with watched(shop) as worker:
        (revoked,) = send(shop, "wait")
        shop.wait_for_diary(name="wait")
        shop.app.control.revoke(revoked, terminate=True)
        ended(shop, finished=1, dead=0)
        (well,) = send(shop, "well")
        ended(shop, finished=2, dead=0)
        assert worker.stop() == 0

    assert len(shop.diary(name="wait")) == 1
    assert outcomes(shop) == {revoked: History.Outcome.CANCELLED, well: History.Outcome.ACCEPTED}


def test_a_running_handler_that_is_cancelled_is_ended_and_its_message_gone(shop: Site) -> None:
    with watched(shop) as worker:
        (cancelled,) = send(shop, "wait")
        shop.wait_for_diary(name="wait")
        wait_until(lambda: WorkerSession.objects.using(shop.alias).get().running)
        [answer] = cancel(cancelled, running=True, using=shop.alias)
        ended(shop, finished=1, dead=0)
        (well,) = send(shop, "well")
        ended(shop, finished=2, dead=0)
        assert worker.stop() == 0

    assert answer.effect is Effect.STOPPING
    assert len(shop.diary(name="wait")) == 1
    assert outcomes(shop) == {cancelled: History.Outcome.CANCELLED, well: History.Outcome.ACCEPTED}


def test_sentry_hears_of_each_failed_attempt_with_its_own_traceback(shop: Site) -> None:
    _needs("sentry_sdk")
    with watched(shop, by="sentry") as worker:
        send(shop, *CHOSEN, "fail", headers=TRACED)
        shop.send("watched.fail")
        ended(shop, finished=4, dead=2)
        assert worker.stop() == 0

    errors = [(line["type"], line["value"], line["at_function"]) for line in shop.diary(by="celery")]
    handlers = 2 * [("ValueError", "no stock for fail", "_fail")]
    assert sorted(errors) == sorted([*handlers, ("ValueError", "a task of Celery's", "fail")])
    runs = shop.diary(sentry="transaction", name="django_mq.deliver")
    assert len(runs) == len(CHOSEN) + 2 + 2
    assert {line["trace"] for line in runs} == {TRACE}
    assert sum(line["status"] == "internal_error" for line in runs) == 2


def test_one_trace_leads_from_the_publisher_through_celerys_span_into_ours(shop: Site) -> None:
    _needs("opentelemetry.instrumentation.celery")
    with watched(shop, by="opentelemetry") as worker:
        send(shop, "well", "fail", headers=TRACED)
        ended(shop, finished=1, dead=1)
        assert worker.stop() == 0

    runs = shop.diary(span="run/django_mq.deliver")
    handled = shop.diary(span="process orders")
    assert {line["trace"] for line in [*runs, *handled]} == {TRACE}
    assert [line["parent"] for line in runs] == 3 * [SPAN]
    assert sorted(line["parent"] for line in handled) == sorted(line["id"] for line in runs)
    for lines in (runs, handled):
        assert sorted(line["status"] for line in lines) == ["ERROR", "ERROR", "UNSET"]
        assert [line["exceptions"] for line in lines if line["status"] == "ERROR"] == 2 * [["ValueError"]]


def test_a_task_of_djangos_runs_in_the_worker_and_is_traced_and_reported(
    shop: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("sentry_sdk", "opentelemetry.instrumentation.celery", TASKS):
        _needs(package)
    backend = {"BACKEND": "django_mq.integrations.tasks.MQBackend", "QUEUES": ["mails"]}
    monkeypatch.setenv("JOURNEY_TASKS", json.dumps(backend))
    monkeypatch.setenv("JOURNEY_APPS", APP)
    monkeypatch.setenv("WATCHED_BY", "sentry opentelemetry")
    with shop.worker() as worker:
        said = shop.run("django", "shell", "-c", ENQUEUE)
        ended(shop, finished=1, dead=1)
        assert worker.stop() == 0
    asked = shop.run("django", "shell", "-c", f"{ASK}\nprint(*map(known, {said.split()[-2:]}))")

    assert asked.split()[-4:] == ["SUCCESSFUL", "1", "FAILED", "2"]
    (published,) = shop.diary(span="checkout")
    runs = shop.diary(span="process mails")
    assert len(runs) == 3
    assert {line["trace"] for line in runs} == {published["trace"]}
    assert [line["value"] for line in shop.diary(sentry="error", by="celery")] == 2 * ["no such address"]


#: Two mails under one span.
ENQUEUE = f"""
from opentelemetry import trace
from {APP}.mails import mail
with trace.get_tracer("shop").start_as_current_span("checkout"):
    print(mail.enqueue("ann").id, mail.enqueue("unknown").id)
"""
#: What is known of them.
ASK = f"""
from {APP}.mails import mail
def known(result_id):
    result = mail.get_result(result_id)
    return f"{{result.status}} {{result.attempts}}"
"""


def _needs(package: str) -> None:
    """Skip on a laptop that has no such package; fail in CI."""
    try:
        found = find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is None:
        skip_or_fail(UnavailableError(f"{package} is not installed."))
