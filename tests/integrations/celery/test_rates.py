"""The ``rate_limit`` of a task waits in the queue, for all workers; a worker in a thread, queues in memory."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.worker.control import Panel

from django_mq import conf
from django_mq.engine.decisions.keyed_limits import Allowed
from django_mq.engine.decisions.rates import Rate
from django_mq.errors import OutOfRange
from django_mq.integrations.celery import rates
from django_mq.integrations.celery.rates import LIFTED, NAME
from django_mq.limits import declared, throttle
from django_mq.stores.registry import MEMORY
from tests.stores.builders import declare
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_mq.inprocess.memory.store import MemoryStore

WORKER: dict[str, Any] = {"pool": "solo", "perform_ping_check": False, "shutdown_timeout": PATIENCE_SECONDS}


@pytest.fixture(autouse=True)
def unchanged(unchecked: None) -> Iterator[None]:
    commands = dict(Panel.data)
    yield
    Panel.data.update(commands)
    declared._limits.clear()
    conf.remove_extension(declared.NAME)


@pytest.fixture
def app(store: MemoryStore) -> Iterator[Celery]:
    """An app with a task that begins once an hour, and one that begins at any time."""
    made = Celery("rates", broker=f"django-mq:///{MEMORY}", set_as_current=False)
    made.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)
    ran = made.ran = SimpleQueue()

    @made.task(name="rare", shared=False, rate_limit="1/h")
    def rare(word: str) -> None:
        ran.put(word)

    @made.task(name="note", shared=False)
    def note(word: str) -> None:
        ran.put(word)

    yield made
    made.close()


def heard(app: Celery, count: int) -> list[str]:
    return [app.ran.get(timeout=PATIENCE_SECONDS) for _ in range(count)]


def change(app: Celery, task: str, rate: str) -> Any:
    [answer] = app.control.rate_limit(task, rate, reply=True, timeout=PATIENCE_SECONDS, limit=1)
    return next(iter(answer.values()))


def allowed(store: MemoryStore) -> dict[str, Allowed]:
    return {key: given for (limit, key), given in store.rates.facts("celery").allowed.items() if limit == NAME}


def test_what_is_over_the_rate_of_a_task_waits_in_the_queue_and_other_tasks_pass(
    app: Celery, store: MemoryStore
) -> None:
    sent = [app.tasks["rare"].delay(str(number)) for number in range(4)]
    app.tasks["note"].delay("other")

    with start_worker(app, **WORKER) as worker:
        assert heard(app, 2) == ["0", "other"]
        app.tasks["rare"].apply_async(("later",), countdown=0.2)
        wait_until(lambda: store.queues.counts()["celery"].parked == 4)
        assert [*worker.consumer.task_buckets.values()] == [None] * len(app.tasks)

        app.control.revoke(sent[2].id)
        wait_until(lambda: store.queues.counts()["celery"].parked == 3)
        assert change(app, "rare", "0") == {"ok": "new rate limit set successfully"}
        assert sorted(heard(app, 3)) == ["1", "3", "later"]
    assert declared.limits_of("celery") == ()


@pytest.mark.parametrize("code", ["1/h", None])
def test_what_remote_control_says_is_a_row_that_holds_for_workers_that_start_later(
    app: Celery, store: MemoryStore, code: str | None
) -> None:
    app.tasks["rare"].rate_limit = code
    with start_worker(app, **WORKER) as worker:
        deliveries = worker.consumer.task_consumer.channel.connection.deliveries
        assert (deliveries.worker.rates is None) is (code is None)
        assert "error" in change(app, "rare", "often")
        assert "error" in change(app, "unknown", "1/m")
        assert allowed(store) == {}
        change(app, "note", "2/h")
        change(app, "rare", "100/s")
        assert allowed(store) == {"note": Allowed(Rate(2, 3600.0)), "rare": Allowed(Rate(100, 1.0))}

    app.tasks["note"].rate_limit, app.tasks["rare"].rate_limit = None, code  # as in another process
    for number in range(3):
        app.tasks["note"].delay(f"note {number}")
        app.tasks["rare"].delay(f"rare {number}")
    with start_worker(app, **WORKER):
        assert sorted(heard(app, 4)) == ["note 0", "rare 0", "rare 1", "rare 2"]
        wait_until(lambda: store.queues.counts()["celery"].parked == 2)
        store.rates.allow("celery", NAME, "note", Allowed())
        change(app, "rare", "1/h")  # the worker looks
        assert heard(app, 2) == ["note 1", "note 2"]
        with pytest.raises(Empty):
            app.ran.get_nowait()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (({}, "1/h", {}), None),
        (({"strict": True}, "1/h", {}), "A strict queue ends"),
        (({"grouping": "shared"}, "1/h", {}), "In a queue with groups"),
        (({}, "-1/h", {}), "The amount of a rate"),
        (({}, "1/h", {"worker_disable_rate_limits": True}), ""),
        (({}, "1/h", {"task_protocol": 1}), ""),
    ],
)
def test_celerys_own_bucket_stays_where_the_rate_cannot_hold_for_all(
    app: Celery,
    store: MemoryStore,
    caplog: pytest.LogCaptureFixture,
    given: tuple[dict[str, Any], str, dict[str, Any]],
    why: str | None,
) -> None:
    options, rate, settings = given
    declare(store, "celery", **options)
    app.conf.update(settings)
    app.tasks["rare"].rate_limit = rate

    with start_worker(app, **WORKER) as worker:
        assert (worker.consumer.task_buckets["rare"] is None) is (why is None)
        assert [limit.type for limit in declared.limits_of("celery")] == ([] if why is not None else ["rare"])
    assert [why for record in caplog.records if why and why in record.message] == [why] * bool(why)


def test_a_queue_is_limited_from_the_first_such_task_on_and_as_long_as_it_is_consumed(
    app: Celery, store: MemoryStore
) -> None:
    declare(store, "other")
    throttle("other", amount=1000, seconds=1, burst=1000, name="mine")

    def names() -> list[str]:
        return [limit.name for limit in declared.limits_of("other")]

    with start_worker(app, **WORKER):
        app.control.add_consumer("other", reply=True, timeout=PATIENCE_SECONDS, limit=1)
        assert names() == ["mine"]
        for number in range(3):
            app.tasks["rare"].apply_async((str(number),), queue="other")
        app.tasks["note"].apply_async(("note",), queue="other")
        assert heard(app, 2) == ["0", "note"]
        wait_until(lambda: store.queues.counts()["other"].parked == 2)
        assert names() == ["mine", NAME]
        app.control.cancel_consumer("other", reply=True, timeout=PATIENCE_SECONDS, limit=1)
        wait_until(lambda: names() == ["mine"])


def test_a_task_whose_keys_another_limit_may_use_keeps_its_bucket(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    throttle("celery", amount=1, seconds=1, name=NAME, key="group")

    with start_worker(app, **WORKER) as worker:
        assert worker.consumer.task_buckets["rare"] is not None
    assert "keys this one could share" in caplog.text


def test_rates_are_read_as_celery_reads_them() -> None:
    read = {given: rates.rate_of(given) for given in (None, 0, "0", "0/m", "10/m", "2/h", "0.5/s", "3", 7, 0.25)}

    assert read == {
        **dict.fromkeys((None, 0, "0", "0/m")),
        "10/m": Rate(10.0, 60.0),
        "2/h": Rate(2.0, 3600.0),
        "0.5/s": Rate(0.5, 1.0),
        "3": Rate(3.0, 1.0),
        7: Rate(7.0, 1.0),
        0.25: Rate(0.25, 1.0),
    }
    for given in ("inf", "-1/s", "nan"):
        with pytest.raises(OutOfRange):
            rates.rate_of(given)
    assert LIFTED.interval < 1e-5
