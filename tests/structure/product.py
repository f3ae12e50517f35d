"""The product at work, as far as it is measured: both kinds of workers, every interface, the scenarios."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios" / "data").glob("*.json"))
#: Queues whose options make each rule apply at publish or at a claim.
QUEUES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tasks": {"levels": 3, "max_attempts": 2, "backoff_seconds": 0.01, "dedup_seconds": 60.0},
    "bounded": {"min_ttl_seconds": 60.0, "max_ttl_seconds": 3600.0},
    "lasting": {"due_order": "keep_place", "ttl_seconds": 60.0},
    "ring": {"max_messages": 2, "overflow": "ring"},
    "dropping": {"max_messages": 2, "overflow": "drop"},
    "full": {"max_messages": 2},
    "values": {"kind": "last_value", "last_value_key": "key"},
    "grouped": {"grouping": "shared"},
    "found": {"search": "order customer.id"},
}
#: Options that make no sense together.
WITHOUT_SENSE = (
    "--kind=last_value",
    "--overflow=ring",
    "--backoff-seconds=5",
    "--backoff-cap-seconds=1",
    "--ttl-seconds=5",
    "--min-ttl-seconds=9",
    "--max-ttl-seconds=5",
    "--selectors=key = = 'one'\nkey = 1\nkey=1\nJMSExpiration > 0",
)
#: Conditions of every kind, as users ask for them when they browse.
SELECTORS = (
    "JMSType = 'order.paid' AND (JMSPriority BETWEEN 4 AND 9 OR JMSCorrelationID IS NOT NULL)",
    "key IN ('one', 'two') AND NOT (JMSMessageID LIKE '%-%\\_%' ESCAPE '\\' OR JMSDestination LIKE 'v_lues')",
    "JMSExpiration = 0 AND JMSDeliveryTime - JMSTimestamp < 60 * 1000.0 AND -AMQSize + 8 / 2 <> 0x1F",
    "\"key\" <> 'it''s' OR urgent = TRUE OR key NOT IN ('three') OR key NOT LIKE 'a%' OR AMQSize >= .5",
    "AMQSize / 0 = 1 OR AMQSize / 2.0 > 0 OR JMSReplyTo IS NULL OR 'one' + 1 = 2",
)
#: Conditions that no message can be asked for.
SLIPS = (
    "key = = 'one'",
    "key = 'one' 'other'",
    "key NOT 5",
    "key LIKE 'a' ESCAPE 'bc'",
    "key = NULL",
    "AMQSize < 1e999",
    f"AMQSize < {'9' * 5000}",
    "(" * 500,
    "x" * 100_000,
)
#: Options of a queue in memory that it cannot have.
IMPOSSIBLE: tuple[dict[str, Any], ...] = (
    {"kind": "priority", "sort_key": "key"},
    {"max_messages": "many"},
    {"max_messages": 10**5000},
    {"max_attempts": 0},
    {"last_value_key": "k" * 300},
    {"last_value_key": "\udc80"},
)
#: What the pipeline can ask of another queue, or of other consumers.
SIMULATIONS = (
    "by priority:levels=3,consumers=2,credit=2",
    "by turn:kind=fifo,consumers=2,credit=2",
    "failing:failures=0.5,max_attempts=2,backoff_seconds=2",
    "failing at once:failures=0.5,max_attempts=2,backoff_seconds=0,dead_letter_queue=dead,due_order=keep_place",
    "for a while:ttl_seconds=5,credit=3",
    "at most for a while:max_ttl_seconds=5,expiry_queue=late",
    "refusing:max_messages=4",
    "dropping:max_messages=4,overflow=drop",
    "a ring:max_messages=4,overflow=ring,credit=2,failures=0.3",
    "waiting:max_messages=4,overflow=flow,wait_seconds=20",
)
#: More messages than a claim reads at first.
MANY = 201


def native_message() -> None:
    """Publish a message, start a worker that handles it, and stop the worker."""
    from django_mq.api import publish

    handled: list[Any] = []
    publish("orders", {"order": 1})
    handle_all("orders", handled.append)
    assert len(handled) == 1


def handle_all(queue: str, function: Callable[[Any], object]) -> None:
    """Let a worker handle a queue until it is empty."""
    from django_mq.api import consumer
    from django_mq.delivery.consumer.handlers import forget, handler_of
    from django_mq.delivery.consumer.worker import Worker

    @consumer(queue)
    def handle(message: Any) -> None:
        function(message)

    Worker([handler_of(queue)], threads=2).run(until_empty=True)
    forget(queue)


def celery_message(url: str = "django-mq://", *, countdown: float | None = None) -> None:
    """Publish a Celery task, start a worker that runs it when it is due, and stop the worker."""
    from celery import Celery, signals

    from django_mq.integrations.celery.url import register

    register()
    app = Celery("structure", broker=url)
    app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, worker_redirect_stdouts=False)
    run: list[int] = []

    @app.task(name="note")
    def note(number: int) -> None:
        run.append(number)

    worker = app.Worker(pool="solo", without_mingle=True, without_gossip=True, loglevel="ERROR")
    signals.task_postrun.connect(lambda **_: worker.stop(), weak=False)
    note.apply_async((1,), countdown=countdown)
    with suppress(SystemExit):
        worker.start()
    assert run == [1]


def chords() -> None:
    """Publish a chord of Celery's, lose one member with its worker, remove the others, and wait for its result."""
    from billiard.exceptions import WorkerLostError
    from celery import Celery, chord
    from celery.exceptions import TimeoutError as ResultTimeout

    from django_mq.api import cancel
    from django_mq.integrations.celery.url import register
    from django_mq.models import Message

    register()
    with Celery("chords", broker="django-mq://", backend="django-mq://", set_as_current=False) as app:

        @app.task(name="total")
        def total(numbers: Any) -> Any:
            return numbers

        result = chord([total.s(1), total.s(2), total.s(3)], total.s()).apply_async(queue="members")
        _begin_and_die("members")
        cancel([*Message.objects.filter(queue__name="members").values_list("message_id", flat=True)])
        with suppress(ResultTimeout, WorkerLostError):
            result.get(timeout=0.01, disable_sync_subtasks=False)  # a worker has run in this process


def _begin_and_die(queue: str) -> None:
    """Acknowledge a task of a chord as a worker that is gone then, and look until the task is lost."""
    from datetime import timedelta

    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.results.abandoned import count_abandoned
    from django_mq.stores.clock import clock
    from django_mq.stores.records import ClaimRequest, SessionInfo, Settlement
    from django_mq.stores.registry import shared_store

    store = shared_store("default")
    info = SessionInfo(name="gone", kind="celery", host="host", pid=1, version="1", queues=(queue,))
    session = store.sessions.open(info, deadline_seconds=60)
    [begun] = store.claims.claim(session, ClaimRequest(queues=(queue,), credit=1)).claimed
    store.settlements.settle(session, [Settlement(begun.id, begun.claim, Verdict.ACCEPT, told_to=begun.told_to)])
    store.sessions.close(session)
    try:
        for _ in range(2):
            clock.offset += timedelta(minutes=1)
            count_abandoned(store, 10)
    finally:
        clock.offset = timedelta(0)


def interfaces() -> None:
    """Publish with every option, pause and look, and let handlers end in every way."""
    from django.core.management import CommandError, call_command

    from django_mq.api import pause, publish, publish_many, resume
    from django_mq.delivery.operator.bindings import bind
    from django_mq.diagnosis.state.overview import overview
    from django_mq.engine.options import QueueOptions
    from django_mq.errors import DuplicateMessage, InvalidMessage, QueueFull
    from django_mq.stores.registry import shared_store

    for name, options in QUEUES.items():
        shared_store("default").queues.declare(name, QueueOptions.of(options).as_dict())
    call_command("mq_queue", "create", "made", "--grouping", "shared", "--max-in-flight", "5", stdout=StringIO())
    for refused in (("edit", "made", "--max-in-flight", "0"), ("create", "other", *WITHOUT_SENSE)):
        with suppress(CommandError):
            call_command("mq_queue", *refused)
    for pattern in ("#.a.*", "b.#", "#"):
        bind("exchange", "tasks", exchange_type="topic", pattern=pattern, using="default")
    publish(exchange="exchange", routing_key="b.a.c", body="Reject")
    for kind in ("direct", "fanout"):
        bind(kind, "plain", exchange_type=kind, using="default")
        publish(exchange=kind, body="accept")
    _route_by_headers("plain")
    for ending, priority in (("Release", 9), ("Retry", 0), ("ValueError", 4)):
        publish("tasks", ending, priority=priority, deliver_at=datetime.now(UTC) - timedelta(seconds=1))
    with suppress(DuplicateMessage):
        publish_many([_letter("tasks", dedup_id="once"), _letter("tasks", dedup_id="once")])
    for name in ("bounded", "lasting"):
        publish_many([_letter(name, ttl=1), _letter(name), _letter(name, ttl=7200)])
    for name in ("ring", "dropping", "full"):
        with suppress(QueueFull):
            publish_many([_letter(name)] * 3)
    for value in (1, 2):
        publish("values", value, headers={"key": "one"})
    _browse_by_selectors("values", "full", "plain")
    for refused in ({"headers": {"key": "one"}, "delay": 5}, {"headers": {"key": "o" * 300}}):
        with suppress(InvalidMessage):
            publish("values", **refused)
    pause("tasks", seconds=60)
    overview(using="default")
    resume("tasks")
    _publish_many_alike("plain", "bounded", "lasting")
    _publish_unique("plain")
    publish_many([_letter("found", {"order": 4711, "customer": {"id": "c-1"}}), _letter("found")])
    handle_all("tasks", _Endings())
    _one_group_before_another()
    _look_selectors_up("selected")


def _publish_unique(queue: str) -> None:
    """Publish messages with the same keys by each rule, and some that no rule allows."""
    from django_mq.api import Unique, debounce, publish
    from django_mq.engine.decisions.unique import by_arguments
    from django_mq.errors import DuplicateMessage, InvalidMessage

    rules = [
        *(debounce(60, at_most_seconds=300, key="a"),) * 2,
        *(Unique(arguments=("one",), second=second) for second in ("raise", "drop", "replace", "raise")),
        *(Unique(key="b", until="window", seconds=60.0),) * 2,
        *(by_arguments(rule, "task", {"one": 1}) for rule in (Unique(), Unique(key="c"))),
        Unique(until="never", within="nothing", second="other", replaces=("all",), arguments=()),
        Unique(key="", seconds=-1.0, wait_seconds=0.0, at_most_seconds=1.0),
        debounce(5, at_most_seconds=1, key="a"),
        Unique(within="type"),
        Unique(arguments=("two",)),
    ]
    for rule in rules:
        for body in ({"one": 1}, b"one"):
            with suppress(DuplicateMessage, InvalidMessage):
                publish(queue, body, unique=rule)
    with suppress(InvalidMessage):
        by_arguments(Unique(arguments=()), "task", {})


def _look_selectors_up(queue: str) -> None:
    """Declare selectors of a queue with messages, let maintenance ask these, and handle what one wants."""
    from django_mq.api import consumer, publish
    from django_mq.delivery.consumer.handlers import forget, handler_of
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare, pass_time

    store, handled = shared_store("default"), []
    declare(store, queue, selectors="key = 'one'\nsize > 5")
    store.maintenance.cover()
    pass_time(store, 60)
    store.maintenance.cover()
    pass_time(store, -60)
    for headers in ({"key": "one"}, {"key": "two"}, {"size": 6}, {"key": "one", "size": 6}):
        publish(queue, headers=headers)
    consumer(queue, selector="key='one'")(handled.append)
    Worker([handler_of(queue)], threads=2).run(until_empty=True)
    forget(queue)
    assert len(handled) == 2


def _route_by_headers(queue: str) -> None:
    """Bind the queue by selectors, and by the arguments of AMQP, right and wrong ones, and publish."""
    from kombu import Connection, Exchange, Queue

    from django_mq.api import publish
    from django_mq.delivery.operator.bindings import bind
    from django_mq.errors import ConfigurationError, MalformedSelector
    from django_mq.integrations.celery.url import register

    bind("headers", queue, exchange_type="headers", selector="size > 1 AND vip", using="default")
    for headers in ({"size": 3, "vip": True}, {"size": 1}):
        publish(exchange="headers", headers=headers, body="accept")
    register()
    with Connection("django-mq://") as connection:
        for arguments in (
            {"size": 3, "vip": None, "region": "eu"},
            {"x-match": "any", "vip": True, "size": [1]},
            {"x-match": "some", "vip": True},
        ):
            bound = Queue(queue, Exchange("regions", "headers"), binding_arguments=arguments)
            with suppress(ConfigurationError, MalformedSelector):
                bound(connection.default_channel).declare()


def _browse_by_selectors(*queues: str) -> None:
    from django_mq.api import browse
    from django_mq.errors import MalformedSelector

    for selector in SELECTORS:
        for queue in queues:
            list(browse(queue, selector=selector))
    for slip in SLIPS:
        with suppress(MalformedSelector):
            list(browse(queues[0], selector=slip))


def _one_group_before_another() -> None:
    """Hold a message of one group until another group's message, behind a page of the first's, is handled."""
    from django_mq.api import publish_many

    publish_many([_letter("grouped", group_key="one", headers={"waits": not number}) for number in range(MANY)])
    publish_many([_letter("grouped", group_key="other", headers={"waits": False})])
    handled = threading.Event()

    def handle(message: Any) -> None:
        if message.headers["waits"]:
            assert handled.wait(60)
        elif message.group_key == "other":
            handled.set()

    handle_all("grouped", handle)


def shared_handlers() -> None:
    """Let two handlers of different priority share a queue in one worker."""
    from django_mq.api import consumer, publish
    from django_mq.delivery.consumer.handlers import discover, forget
    from django_mq.delivery.consumer.worker import Worker

    @consumer("orders", shared=True, credit=1)
    def one(message: Any) -> None:
        """Accept."""

    @consumer("orders", shared=True, priority=1, credit=2)
    def other(message: Any) -> None:
        """Accept."""

    for number in range(5):
        publish("orders", number, priority=number)
    Worker(discover()["orders"], threads=2).run(until_empty=True)
    forget("orders")


def durable_handlers() -> None:
    """Let durable handlers do steps, sleep, wait for events, and meet records of other code."""
    from django_mq.api import consumer, emit, publish
    from django_mq.delivery.consumer.handlers import forget, handler_of
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.delivery.queues import declare
    from django_mq.errors import EventTimedOut
    from django_mq.stores.registry import shared_store

    runs: list[Any] = []

    def handle(message: Any) -> None:
        runs.append(message)
        if message.patched("new"):
            message.step("one", int)
        message.step("other" if message.body == "changed" and len(runs) > 2 else "one", int)
        message.patched("newer")
        message.sleep(seconds=0)
        with suppress(EventTimedOut):
            message.wait_for("never", timeout_seconds=0)
        message.wait_for("paid", message.body)
        message.sleep(days=1)

    declare(shared_store("default"), "durable")
    consumer("durable", durable=True)(handle)
    for body in ("kept", "changed"):
        publish("durable", body)
    for _ in range(2):
        Worker([handler_of("durable")], threads=1).run(until_empty=True)
        for key in ("kept", "changed"):
            emit("paid", key)
    forget("durable")


def handlers_with_rules() -> None:
    """Let handlers with selectors and credit in bytes consume a queue, and decline, fail and sort messages."""
    from django.core.management import call_command

    from django_mq.api import Decline, consumer, publish
    from django_mq.delivery.consumer.handlers import discover, forget
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.delivery.operator.bindings import bind
    from django_mq.errors import InvalidMessage
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare

    store = shared_store("default")
    declare(store, "by time", sort_key="key", sort_type="time")
    declare(store, "by number", sort_key="key", max_attempts=1, dead_letter_exchange="endings")
    bind("endings", "plain", exchange_type="direct", using="default")
    by_time, by_number = ("2030-01-01T00:00Z", "2030-01-01", "soon", 5), (1, True, 10**400)
    for name, key in (*(("by time", key) for key in by_time), *(("by number", key) for key in by_number)):
        with suppress(InvalidMessage):
            publish(name, "accept" * 100, headers={"key": key})

    @consumer("by time", selector="key LIKE '2030%' AND size IS NULL", credit_bytes=100)
    def one(message: Any) -> None:
        raise Decline

    @consumer("by time", selector="key <> '2031' OR vip = TRUE OR size > 5")
    def other(message: Any) -> None:
        """Accept."""

    @consumer("by number")
    def failing(message: Any) -> None:
        raise ValueError

    call_command("check")
    found = discover()
    Worker([*found["by time"], *found["by number"]], threads=2).run(until_empty=True)
    forget("by time")
    forget("by number")


def handlers_with_retries() -> None:
    """Let handlers with retries of their own fail, be asked to end, and take many messages at a time."""
    from django.core.management import call_command

    from django_mq.api import Release, consumer, publish
    from django_mq.delivery.consumer.handlers import forget
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare

    errors = {"connection": ConnectionError, "key": KeyError, "value": ValueError, "release": Release}
    rules: dict[str, dict[str, Any]] = {
        "linear": {
            "backoff": "linear",
            "backoff_seconds": 0.01,
            "reject_on": KeyError,
            "retry_within_seconds": 60,
        },
        "constant": {"backoff": "constant", "retry_on": (ConnectionError, ValueError), "release_seconds": 0.01},
        "exponential": {"backoff": "exponential", "backoff_seconds": 0.01, "release_on": ConnectionError},
        "own": {
            "backoff": lambda attempt, error: attempt / 100,
            "backoff_cap_seconds": 0.02,
            "backoff_jitter": 0.1,
        },
    }
    store = shared_store("default")
    for queue in (*rules, "patient", "clicks"):
        declare(store, queue)
    for queue, given in rules.items():
        consumer(queue, max_attempts=2, **given)(_failing_by_type(errors))
        for name in errors:
            publish(queue, type=name)

    @consumer("patient", time_limit_seconds=60, soft_time_limit_seconds=0.01, max_attempts=1)
    def patient(message: Any) -> None:
        while not message.cancelled:
            time.sleep(0.01)
        message.raise_if_cancelled()

    @consumer("clicks", bulk=4, bulk_seconds=0.01, max_attempts=1)
    def clicks(messages: list[Any]) -> None:
        if any(message.body == 2 for message in messages):
            raise ValueError

    publish("patient")
    for number in range(5):
        publish("clicks", number, group_key="one" if number % 2 else None)
    _ask_for_impossible_retries()
    queues = ",".join([*rules, "patient", "clicks"])
    call_command("mq_worker", f"--queues={queues}", "--until-empty", "--max-messages=1000", stdout=StringIO())
    for queue in queues.split(","):
        forget(queue)


def limited_handlers() -> None:
    """Let more messages than a throttle allows wait, by the group, the type and a header, and for all together."""
    from django.core.management import call_command

    from django_mq.api import consumer, publish
    from django_mq.delivery.consumer.handlers import forget
    from django_mq.errors import OutOfRange
    from django_mq.limits import RateLimited, throttle
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare

    store = shared_store("default")
    declare(store, "limited")
    rate: dict[str, Any] = {"amount": 1000, "seconds": 1, "burst": 2}
    for key in ("", "group", "type", "header:tenant"):
        throttle("limited", **rate, key=key, name=f"by_{key.partition(':')[2] or key}", weight="weight")
    throttle("limited", **rate, type="other", name="others")
    for wrong in ({"amount": 0}, {"key": "body"}, {"name": "no name"}):
        with suppress(OutOfRange):
            throttle("limited", **rate | wrong)

    @consumer("limited")
    def limited(message: Any) -> None:
        if message.body == 1 and not message.redelivered:
            raise RateLimited("busy", retry_after_seconds=0.01)

    for number in range(4):
        headers = {"tenant": "t" * (1 + 300 * number), "weight": 1 + number}
        publish("limited", number, headers=headers, type="some", group_key="one")
    while store.queues.counts()["limited"].total:
        call_command("mq_worker", "--queues=limited", "--until-empty", stdout=StringIO())
    forget("limited")
    _run_few_at_once()


def _run_few_at_once() -> None:
    """Let one message of a customer run at once, and drop what is over a rate; the customer is in the body."""
    from django_mq.api import consumer, publish
    from django_mq.delivery.consumer.handlers import discover, forget
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.errors import OutOfRange
    from django_mq.limits import concurrency, rate_limit
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare

    declare(shared_store("default"), "few at once")
    concurrency("few at once", 1, key="body:customer", name="customers")
    concurrency("few at once", 1, key="argument:order", place=0, name="orders")
    rate_limit("few at once", amount=1, seconds=60, key="body:customer", type="report", name="reports")
    with suppress(OutOfRange):
        concurrency("few at once", 0)

    @consumer("few at once")
    def few(message: Any) -> None:
        """Accept."""

    customers: list[Any] = [{"customer": "one"}] * 3
    tasks: list[Any] = [[[5], {}, {}], [[], {"order": 5}, {}], [[], {}, {}], [5]]
    publish("few at once", b"{", content_type="application/json")
    publish("few at once", "text", content_type="text/plain")
    for body in (*customers, *tasks):
        publish("few at once", body)
    for _ in customers:
        publish("few at once", {"customer": "two"}, type="report")
    Worker(discover()["few at once"], threads=2).run(until_empty=True)
    forget("few at once")


def fair_handlers() -> None:
    """Let the messages of three tenants, one with double weight, share a queue."""
    from django.core.management import call_command

    from django_mq.api import OutgoingMessage, consumer, publish, publish_many
    from django_mq.delivery.consumer.handlers import forget
    from django_mq.errors import MQError
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare

    store = shared_store("default")
    declare(store, "fair", fair_by="tenant", fair_weights="a 2")
    for wrong in ("a", "a 0", "a 2\na 3"):
        with suppress(MQError):
            declare(store, "wrongly fair", fair_by="tenant", fair_weights=wrong)

    @consumer("fair")
    def fair(message: Any) -> None:
        pass

    tenants = ("a", "b", 3, "a" * 40)
    publish_many([OutgoingMessage(queue="fair", headers={"tenant": tenants[i % 4]}) for i in range(30)])
    publish("fair", headers={"tenant": "late"}, delay=0.01)
    publish("fair")
    with suppress(MQError):
        publish("fair", headers={"tenant": "x" * 10_000})
    while store.queues.counts()["fair"].total:
        call_command("mq_worker", "--queues=fair", "--until-empty", stdout=StringIO())
    forget("fair")


def batches() -> None:
    """Publish batches whose members end in every way, add to one, and let the maintenance look at them."""
    from django_mq.api import Reject, batch, batch_state, cancel, current_batch, publish
    from django_mq.batches.duty import look_again
    from django_mq.batches.models import BatchMember, MessageBatch
    from django_mq.batches.reconcile import reconcile
    from django_mq.engine.decisions.batches import MemberState, member_after, vanished_as
    from django_mq.engine.decisions.ends import End, RunOutcome
    from django_mq.engine.options import QueueOptions
    from django_mq.errors import BatchMisused
    from django_mq.models import Message
    from django_mq.stores.registry import shared_store

    shared_store("default").queues.declare("members", QueueOptions(max_attempts=1).as_dict())

    def handle(message: Any) -> None:
        with suppress(BatchMisused), current_batch(message):
            if message.body == 1:
                publish("members", 2)
        if message.body == 3:
            raise Reject("no")

    def begun(*bodies: int) -> Any:
        with batch("structure", on_complete=("members", 0), on_failure=("members", 0)) as made:
            ids = [publish("members", body) for body in bodies]
        return made, ids

    (good, _), (bad, _), (gone, ids) = begun(1), begun(1, 3), begun(1)
    cancel(ids)
    handle_all("members", handle)
    look_again(shared_store("default"), 100)
    assert [batch_state(each.id).state.value for each in (good, bad, gone)] == ["succeeded", "failed", "cancelled"]
    assert batch_state(bad.id).done == 1
    assert batch_state(bad.id).counts.ended == 3
    bad.redrive()
    handle_all("members", lambda _: None)
    begun(1)
    Message.objects.filter(queue__name="members").delete()
    assert [reconcile(shared_store("default"), 100) for _ in range(2)] == [0, 0]
    BatchMember.objects.exclude(missing_at=None).update(missing_at=datetime.now(UTC) - timedelta(hours=1))
    MessageBatch.objects.update(checked_at=None)
    assert reconcile(shared_store("default"), 100) == 1
    assert vanished_as(End.ACCEPTED, is_task=True) is MemberState.FAILED
    for outcome in RunOutcome:
        member_after(MemberState.FAILED, End.ACCEPTED, outcome)


def receivers() -> None:
    """Receive from another broker, in the memory of this process: each once, by its id or its hash."""
    from django.conf import settings
    from django.test import override_settings
    from kombu import Connection

    from django_mq import conf
    from django_mq.bridges.receiving import receivers_on, receiving
    from django_mq.errors import ConfigurationError
    from django_mq.integrations.prometheus.figures import read

    one: dict[str, Any] = {"bridge": "memory", "queue": "plain"}
    given = {
        "hashed": {
            **one,
            "source": "without.ids",
            "workers": "none",
            "without_id": "hash",
            "content_types": ["text/plain"],
        },
        "by_id": {**one, "source": "with.ids", "dead_letter_queue": "plain"},
    }
    for right in (
        given,
        {"in": {"source": 7, "other": 1}},
        {"in": {**one, "source": "a", "queue": None}},
        {7: 1},
        7,
    ):
        added = {"BRIDGES": {"memory": {"url": "memory://"}}, "RECEIVERS": right}
        with override_settings(DJANGO_MQ={**settings.DJANGO_MQ, **added}):
            if right is not given:
                with suppress(ConfigurationError):
                    receivers_on("default")
                continue
            with Connection("memory://") as connection:
                for id_ in (None, "7", "7" * 300, str(uuid4())):
                    properties = {} if id_ is None else {"message_id": id_, "expiration": 60}
                    for queue in ("without.ids", "with.ids"):
                        connection.SimpleQueue(queue).put("text", serializer="raw", priority=9, **properties)
            read(conf.load().DATABASE)
            with receiving(receivers_on("default"), "default", until_empty=True) as running:
                while not running.is_over:
                    time.sleep(0.01)
            read(conf.load().DATABASE)


def periodic_messages() -> None:
    """Publish what is due of rows with each rule for missed ticks and for runs that last, and follow code."""
    from django_mq.errors import MQError
    from django_mq.periodic import editor
    from django_mq.periodic.declared import follow
    from django_mq.periodic.decorator import declaration_of
    from django_mq.periodic.duty import _next_looks, look
    from django_mq.periodic.extension import find
    from django_mq.periodic.models import PeriodicMessage
    from django_mq.periodic.values import USUAL
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare

    store, now = shared_store("default"), datetime.now(UTC)
    declare(store, "reports")
    usual: dict[str, Any] = {"queue": "reports", "every_seconds": 1.0, "alert_seconds": 1}
    for missed in ("skip", "once", "all"):
        for overlap in ("skip", "queue", "replace"):
            row = PeriodicMessage(
                name=f"{missed} {overlap}", missed=missed, overlap=overlap, jitter_seconds=0.5, **usual
            )
            editor.save(row, using="default")
            PeriodicMessage.objects.filter(pk=row.pk).update(
                next_at=now - timedelta(seconds=99), look_at=now, created_at=now - timedelta(seconds=99)
            )
    for _ in range(3):
        _next_looks.clear()
        look(store, 1000)
    list(find("default"))
    wrong = (
        {"cron": "* * * * *"},
        {"every_seconds": 0, "jitter_seconds": -1, "most_missed": 0, "missed": "some", "overlap": "some"},
        {"alert_seconds": 0, "start_at": datetime.now(), "end_at": now},  # noqa: DTZ005 - what is refused
        {"start_at": now, "end_at": now},
    )
    for values in wrong:
        with suppress(MQError):
            editor.save(PeriodicMessage(name="wrong", **(usual | values)), using="default")
    for every in (60.0, 70.0, 60.0):
        declared = {**USUAL, "every_seconds": every, "kind": "message", "queue": "reports"}
        follow("default", "code:structure", [declaration_of("declared", declared)])
        PeriodicMessage.objects.filter(name="declared").update(most_missed=7)
    PeriodicMessage.objects.all().delete()


def workflows() -> None:
    """Run a graph with each kind of step, retry it, cancel it, and refuse graphs that cannot be."""
    from django_mq.api import Workflow, cancel_workflow, consumer, retry_workflow, step_of
    from django_mq.delivery.consumer.handlers import forget, registered
    from django_mq.delivery.consumer.worker import Worker
    from django_mq.engine.decisions.workflows import StepRule, outcome, problems_of
    from django_mq.stores.registry import shared_store
    from django_mq.workflows import registry
    from django_mq.workflows.graphs import graph_in
    from tests.stores.builders import declare

    fails = True

    @consumer("steps", max_attempts=1)
    def handle(message: Any) -> Any:
        step = step_of(message)
        if fails and step.name == "bad":
            raise ValueError("no")
        return [1, 2] if step.name == "list" else step.results.input

    declare(shared_store("default"), "steps")
    inner, flow = Workflow("inner"), Workflow("flow")
    inner.step("only", "steps")
    flow.step("list", "steps", compensate="steps")
    flow.step("each", "steps", for_each="list", compensate="steps")
    flow.step("whole", inner, after=["each"])
    flow.step("skipped", "steps", after=["list"], when=lambda _results: False)
    flow.step("behind", "steps", after=["skipped"])
    flow.step("bad", "steps", after=["whole", "behind"])
    flow.step("never", "steps", after=["bad"])
    flow.step("sorry", "steps", after=["bad"], runs_on="failure")
    started = flow.start()
    for again in (True, False):
        Worker(registered("steps"), threads=1, using="default").run(until_empty=True)
        fails = False
        if again:
            retry_workflow(started)
    cancel_workflow(flow.start())
    assert graph_in(flow.graph).layers
    outcome([], was_stopped=True)
    for rules in (
        [],
        [StepRule(name="a"), StepRule(name="a", after=("c",))],
        [StepRule(name="a", after=("b",)), StepRule(name="b", after=("a",))],
    ):
        list(problems_of(rules))
    forget("steps")
    for each in (inner, flow):
        registry.forget(each.name)


def bridges() -> None:
    """Forward messages of groups through Kombu's broker in memory, and refuse wrong bridges and circles."""
    from django.conf import settings as site
    from django.test.utils import override_settings
    from kombu import Connection

    from django_mq.api import publish
    from django_mq.bridges.checks import check_bridges
    from django_mq.bridges.declared import bridge_named, shown_address
    from django_mq.bridges.reports import every_report
    from django_mq.bridges.worker import BridgeWorker
    from django_mq.engine.decisions.bridges import bridges_of, circles_of, without_secrets
    from django_mq.engine.decisions.forwarding import (
        BrokerAnswer,
        Flights,
        is_given_up,
        pause_after,
        reason_of,
    )
    from django_mq.errors import ConfigurationError

    url = "amqp://user:secret@127.0.0.1:1//?token=secret"
    named = {"memory": {"url": "memory://", "declare": True}, "away": {"url": url, "in_flight": 2}}
    queues = {"forwarded": {"bridge": "memory", "strict": True}, "kept": {"bridge": "away"}}
    with override_settings(DJANGO_MQ={**site.DJANGO_MQ, "BRIDGES": named, "QUEUES": queues}):
        for number in range(3):
            publish("forwarded", number, group_key="g")
        BridgeWorker(bridge_named("memory"), ["forwarded"]).run(until_empty=True)
        away = BridgeWorker(bridge_named("away"), ["kept"])
        away.turn()
        assert all(report.is_problem for report in every_report("default") if report.name == "away")
        away.stop()
        away.run()
        check_bridges()
        assert shown_address(bridge_named("away")) == "amqp://127.0.0.1:1//"
    with Connection("memory://") as connection:
        assert connection.SimpleQueue("forwarded").qsize() == 3
    assert "secret" not in without_secrets("the user:secret@host, secret", url)
    assert circles_of([("a", "b"), ("b", "a")]) == [["a", "b"]]
    for wrong in (
        [],
        {"a b": {}},
        {"a": 1},
        {"a": {"url": "x", "in_flight": 0, "y": 1}},
        {"a": {"url_variable": 1}},
    ):
        with suppress(ConfigurationError):
            bridges_of(wrong)
    flights = Flights[Any](2)
    flights.offer(SimpleNamespace(queue_name="forwarded", group_key=key) for key in ("g", "g", None))
    while (item := flights.next()) is not None:
        flights.sent(flights.on_way + 1, item)
    flights.withdrawn({"forwarded"})
    flights.answered(1, multiple=True)
    flights.lost(by_message=True)
    assert pause_after(3, 60) == 2
    assert is_given_up(3, 0, 30)
    assert "no" in reason_of(BrokerAnswer.REFUSED, "memory", "no")


def failures_and_alerts() -> None:
    """Put failures in groups, redrive a group in stages, show what runs long, and send alerts to a webhook."""
    from django.conf import settings as site
    from django.test import override_settings

    from django_mq.alerts.extension import look_now, targets
    from django_mq.alerts.models import AlertNotice, RecordedAlert
    from django_mq.errors import ConfigurationError
    from django_mq.failures import groups, staged
    from django_mq.models import FailureGroup
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import declare, open_session, publish

    store = shared_store("default")
    declare(store, "failing")
    worker = open_session(store)
    for _ in range(6):
        publish(store, "failing")
    _end_all(store, worker, "failing", dies=True)
    groups.group_new(store, 500)
    group = FailureGroup.objects.get(text__startswith="order", error="ValueError")
    for per_minute, dies in ((None, False), (600.0, False), (None, True)):
        redrive = staged.begin(group, first=2, per_minute=per_minute, using="default")
        for _ in range(3):
            staged.steer(store, 100)
            _end_all(store, worker, "failing", dies=dies)
        staged.stop(redrive.pk, using="default")
    _look_at_long_runs()
    wrong: Any
    secret = "whsec_" + "a2tra2tra2tra2tra2tra2tra2tra2tr"
    for wrong in (
        5,
        {"?": {}, "team": 5},
        {"team": {"other": 1, "level": "?", "causes": 5}},
        {"team": {"email": ["a@example.org"], "secret": "x", "causes": ["?"]}},
        {"team": {"email": "ops"}, "other": {"webhook": 5, "secret": "whsec_?"}},
        {"team": {"webhook": "http://example.org:x/", "secret": 5}, "other": {"email": [5]}},
    ):
        with override_settings(DJANGO_MQ={**site.DJANGO_MQ, "ALERTS": wrong}), suppress(ConfigurationError):
            targets()
    # No server listens on this port.
    alerts = {"ops": {"webhook": "http://127.0.0.1:9/", "secret": secret, "level": "notice"}}
    with override_settings(DJANGO_MQ={**site.DJANGO_MQ, "ALERTS": alerts, "ALERTS_AFTER_SECONDS": 0}):
        look_now(store)
        for tries in (2, 100):
            AlertNotice.objects.update(tries=tries, next_at=datetime.now(UTC))
            look_now(store)
    RecordedAlert.objects.all().delete()


def figures_of_the_past() -> None:
    """Sum up minutes by type and by tenant, and add them up to longer steps."""
    from django.conf import settings as site
    from django.test import override_settings

    from django_mq.models import History, Queue, Rollup, SearchKey
    from django_mq.rollups import duty as rollups
    from django_mq.stores.registry import shared_store
    from django_mq.tenants import duty as tenants
    from tests.stores.builders import declare

    store: Any = shared_store("default")
    # A worker may have summed these minutes up.
    Rollup.objects.all().delete()
    declare(store, "sums")
    Queue.objects.filter(name="sums").update(other_options={"search": "tenant"})
    given = {"queue_name": "sums", "priority": 4, "outcome": 1, "attempts": 0}
    rows = []
    for number in range(300):
        end = datetime.now(UTC) - timedelta(minutes=2 + number % 2)
        times = dict.fromkeys(("published_at", "ready_at", "claimed_at", "finished_at"), end)
        rows.append(History(message_id=uuid4(), type=str(number), **given, **times))
    History.objects.bulk_create(rows)
    SearchKey.objects.bulk_create(
        SearchKey(message_id=row.message_id, name="tenant", value=row.type) for row in rows
    )
    with override_settings(DJANGO_MQ={**site.DJANGO_MQ, "TENANT_KEY": "tenant"}):
        for hours in (0, 7):
            store.database.clock_offset = timedelta(hours=hours)
            rollups.sum_up(store, 1000)
            tenants.sum_up(store, 1000)
    store.database.clock_offset = timedelta(0)


def many_keys() -> None:
    """Let more keys than a claim reads wait for a rate and for a slot, some of them held or allowed more."""
    from django_mq.engine.decisions.keyed_limits import MOST_KNOWN, Allowed
    from django_mq.engine.decisions.rates import Rate
    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.limits import concurrency, throttle
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import claim, declare, look, open_session, pass_time, publish, settle

    store: Any = shared_store("default")
    declare(store, "many keys")
    throttle("many keys", amount=1, seconds=5, key="header:tenant", weight="weight", name="rate")
    concurrency("many keys", 1, key="header:tenant", name="slots")
    weights = (1, True, 10**400)
    for number in range(2 * (MOST_KNOWN + 20)):
        headers = {"tenant": number % (MOST_KNOWN + 20), "weight": weights[number % len(weights)]}
        publish(store, "many keys", headers=json.dumps(headers))
    store.rates.hold("many keys", "rate", "3", 30.0)
    store.rates.allow("many keys", "rate", "5", Allowed(Rate(1000.0, 1.0, burst=1000)))
    worker = open_session(store, deadline_seconds=3600)
    begun = claim(store, worker, "many keys", credit=1000, slots=1000)
    look(store, worker, "many keys", credit=1000, slots=1000)
    for message in begun[5:15]:
        settle(store, worker, message, Verdict.ACCEPT)
    for seconds in (6, 61):
        pass_time(store, seconds)
        look(store, worker, "many keys", credit=1000, slots=1000)
    store.database.clock_offset = timedelta(0)


def operators() -> None:
    """Move messages and put them back, and look at the first screen, at charts and at every queue."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from django_mq.acts import recorder
    from django_mq.acts.models import Act
    from django_mq.acts.operators import of_site
    from django_mq.acts.undo import undo
    from django_mq.api import pause, publish
    from django_mq.delivery.operator import actions
    from django_mq.delivery.operator.actions import rows_of
    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.models import Consumer, Message, Queue
    from django_mq.stores.registry import shared_store
    from tests.stores.builders import claim, declare, open_session, settle

    store: Any = shared_store("default")
    worker = open_session(store, queues=("moved", "one at a time"))
    declare(store, "one at a time", max_in_flight=1)
    for name in ("moved", "to"):
        declare(store, name)
    for name in ("moved", "moved", "moved", "one at a time", "one at a time"):
        publish(name, 1)
    claim(store, worker, "one at a time")
    for name in ("moved", "one at a time"):
        Consumer.objects.create(session_id=worker, queue_name=name, credit_limit=5)
    call_command("mq_queues", "moved", "one at a time", stdout=StringIO())
    rows = rows_of(Message.objects.filter(queue__name="moved"))
    act = recorder.new_act(of_site("operator"), "message", "move")
    recorder.perform(act, rows, lambda: actions.move(rows, "to", using="default"), using="default")
    [dead] = claim(store, worker, "to", credit=1)
    settle(store, worker, dead, Verdict.DEAD)
    claim(store, worker, "to", credit=1)
    undo(act, recorder.new_act(of_site("operator"), "act", "undo"), using="default")
    pause("to")
    browser = Client()
    browser.force_login(User.objects.create_superuser("operator"))
    for page in ("overview/", "charts/", *(f"{pk}/change/" for pk in Queue.objects.values_list("pk", flat=True))):
        assert browser.get(f"/admin/django_mq/queue/{page}").status_code == 200, page
    Act.objects.all().delete()


def _end_all(store: Any, worker: int, queue: str, *, dies: bool) -> None:
    """Let a session claim what is ready, and accept it, or let it die."""
    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.stores.records import Failure
    from tests.stores.builders import claim, settle

    failure = Failure("ValueError", "order 4711 is gone", "", "builtins.ValueError")
    for message in claim(store, worker, queue, credit=100):
        if dies:
            settle(store, worker, message, Verdict.DEAD, reason="boom", failure=failure)
        else:
            settle(store, worker, message, Verdict.ACCEPT)


def _look_at_long_runs() -> None:
    from django_mq.engine.decisions.unusual import UsualRun, is_unusual

    for usual in (None, UsualRun(100, 1.0, 2.0)):
        is_unusual(90.0, usual)


def _ask_for_impossible_retries() -> None:
    from django_mq.api import Release, consumer
    from django_mq.errors import ConfigurationError

    for given in (
        {"backoff": "quadratic", "backoff_seconds": -1, "release_seconds": -1},
        {"backoff": "linear", "backoff_multiplier": 2.0, "backoff_cap_seconds": 1, "backoff_seconds": 2},
        {"retry_on": 5, "reject_on": (int, KeyError), "release_on": (Release, KeyError)},
        {"backoff": max, "backoff_seconds": 1},
        {"backoff": lambda: 5},
    ):
        with suppress(ConfigurationError):
            consumer("impossible", **given)(print)  # type: ignore[call-overload]


def _failing_by_type(errors: dict[str, type[Exception]]) -> Callable[[Any], None]:
    seen: set[Any] = set()

    def handle(message: Any) -> None:
        error = errors[message.type]
        if message.type != "release" or message.id not in seen:
            seen.add(message.id)
            raise error

    return handle


def steering(alias: str) -> None:
    """Publish in a transaction of the store, and steer a message, its queue and a ring of few bytes."""
    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.errors import DuplicateMessage
    from django_mq.stores.registry import private_store
    from tests.stores.builders import a_message, claim, declare, open_session, publish, settle

    store = private_store(alias)
    declare(store, "steered")
    with store.database.transaction(), store.database.transaction():
        publish(store, "steered", expires_at=datetime.now(UTC) + timedelta(days=1))
    session = open_session(store)
    store.queues.set_paused("steered", paused=True)
    assert claim(store, session, "steered") == []
    store.queues.set_paused("steered", paused=False)
    [message] = claim(store, session, "steered")
    number = message.id
    settle(store, session, message, Verdict.DEAD)
    assert len(store.operations.redrive([number])) == 1
    assert len(store.operations.reschedule([number], datetime.now(UTC) + timedelta(hours=1))) == 1
    assert store.operations.cancel([number]) == [number]
    with suppress(DuplicateMessage):
        store.publications.append_many([a_message("steered")] * 2)
    _share_groups(store)
    declare(store, "ring of bytes", max_bytes=5, overflow="ring")
    for _ in range(3):
        publish(store, "ring of bytes")
    store.close()


def _share_groups(store: Any) -> None:
    """Let a session take over groups of another, and both decline what is left."""
    from django_mq.engine.decisions.verdict import Verdict
    from tests.stores.builders import claim, declare, open_session, publish, settle

    declare(store, "balanced", grouping="balanced")
    first, second = open_session(store), open_session(store)
    for number in range(4):
        publish(store, "balanced", group_key=f"group {number}")
    for session in (first, second, first, second):
        for message in claim(store, session, "balanced"):
            settle(store, session, message, Verdict.RELEASE if session == first else Verdict.DECLINE)
    store.maintenance.bury_unwanted()


def transactions(alias: str) -> None:
    """Publish and settle in transactions of a store in memory, which end in every way."""
    from django_mq.engine.decisions.verdict import Verdict
    from django_mq.errors import PublishError
    from django_mq.stores.registry import private_store
    from tests.stores.builders import claim, declare, open_session, publish, settle

    store = private_store(alias)
    declare(store, "first")
    declare(store, "second")
    session = open_session(store)
    for _ in range(3):
        publish(store, "first")
    one, other, last = claim(store, session, "first")
    with store.database.transaction():
        settle(store, session, one, Verdict.ACCEPT)
        assert settle(store, session, one, Verdict.ACCEPT)
        publish(store, "second")
    with suppress(ZeroDivisionError), store.database.transaction():
        publish(store, "second", dedup_id="once")
        settle(store, session, other, Verdict.DEAD)
        raise ZeroDivisionError
    store.deletions.purge("second")
    with suppress(PublishError), store.database.transaction():
        settle(store, session, last, Verdict.RELEASE)
        publish(store, "second")
        store.deletions.delete_queue("second")
    store.close()


def mistakes(alias: str) -> None:
    """Ask a store in memory, and its interfaces, for what is impossible."""
    from django_mq.delivery import queues
    from django_mq.errors import ConfigurationError, InvalidMessage, MQError
    from django_mq.stores.registry import private_store
    from tests.stores.builders import claim, declare, open_session, publish

    store = private_store(alias)
    for options in IMPOSSIBLE:
        with suppress(ConfigurationError):
            queues.declare(store, "impossible", options)
    for name in ("\udc80", "n" * 300):
        with suppress(InvalidMessage):
            queues.declare(store, name)
    for options in ({"max_attempts": -1}, {"levels": 11}):
        with suppress(MQError):
            declare(store, f"impossible {options}", **options)
    declare(store, "mistaken")
    number = publish(store, "mistaken")
    with suppress(MQError):
        store.operations.prioritise([number], 10)
    assert len(store.operations.redrive([number])) == len(store.operations.deliver_now([number])) == 0
    session = open_session(store)
    [message] = claim(store, session, "mistaken")
    store.operations.prioritise([message.id], 1)
    store.operations.reschedule([message.id], datetime.now(UTC))
    store.close()


def orders_of_rings(alias: str) -> None:
    """Fill rings that stand in every order, and look how long their first messages wait."""
    from django_mq.stores.registry import private_store
    from tests.stores.builders import claim, declare, open_session, publish

    store = private_store(alias)
    session = open_session(store)
    ring = {"max_messages": 2, "overflow": "ring"}
    declare(store, "sorted ring", kind="fifo", sort_key="key", **ring)
    declare(store, "ring of values", kind="last_value", last_value_key="key", **ring)
    for name in ("sorted ring", "ring of values"):
        for key in (True, 2.5, 1, "text", None, False):
            publish(store, name, headers=json.dumps({"key": key}))
        assert store.maintenance.trim()
        publish(store, name, headers=json.dumps({"key": 3}))
        assert store.maintenance.trim()
        store.queues.counts()
        assert len(claim(store, session, name, credit=1)) == 1
        publish(store, name)
    store.close()


def simulation() -> None:
    """Ask what would have been with other consumers, as the pipeline does."""
    from django_mq.pipeline.whatif.scenario import parse
    from django_mq.pipeline.whatif.simulation import Arrival, simulate

    trace = [Arrival(float(number), number % 10, 3.0) for number in range(30)]
    for text in SIMULATIONS:
        simulate(trace, parse(text))


def _letter(queue: str, body: Any = "accept", **given: Any) -> Any:
    from django_mq.api import OutgoingMessage

    return OutgoingMessage(queue=queue, body=body, **given)


def _publish_many_alike(*queues: str) -> None:
    from django_mq.delivery.batch import publish_batch
    from django_mq.stores.records import Times

    for queue in queues:
        publish_batch(_letter(queue), [b"1"] * 60)
        later = time.time_ns() // 1000 + 10**9
        publish_batch(_letter(queue), [b"1"] * 60, times=Times([None, 1, later] * 20, [None, later] * 30))


class _Endings:
    """Lets each message end as its body says, at its first delivery."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()

    def __call__(self, message: Any) -> None:
        from django_mq import errors

        if message.body == "accept" or (message.body != "ValueError" and message.id in self._seen):
            return
        self._seen.add(message.id)
        raise getattr(errors, message.body, ValueError)


def scenarios(alias: str, files: Sequence[Path] = SCENARIOS) -> None:
    """Play the engine's scenarios through a store; they find its tables empty."""
    from django_mq.stores.registry import private_store
    from tests.scenarios.running import run_file
    from tests.scenarios.stored.environment import stored_environment

    store = private_store(alias)
    for path in files:
        for _ in run_file(path, stored_environment(store)):
            pass
    store.close()


def histories(alias: str, count: int = 10) -> None:
    """Let several sessions do everything that a store offers, at random; the same each time."""
    from tests.agreement.history import history_of
    from tests.agreement.site import Site, now

    site = Site(alias)
    for number in range(count):
        history = history_of(f"structure {number}")
        site.begin(history, now())
        for name, given in history.operations:
            site.perform(name=name, given=given)
    site.close()
