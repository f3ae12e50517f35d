"""Steps run in the order of their dependencies, and what they have returned is there for the next ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_mq.api import Workflow, cancel_workflow, consumer, redrive, retry_workflow, step_of, workflow_results
from django_mq.delivery.consumer.handlers import forget
from django_mq.engine.decisions.workflows import StepState
from django_mq.errors import (
    BodyNotSerialisable,
    UnknownQueue,
    UnknownWorkflow,
    UnsupportedRule,
    WorkflowRefused,
    WorkflowRuns,
    WrongWorkflow,
)
from django_mq.models import Message
from django_mq.stores.registry import MEMORY, shared_store
from django_mq.testing import QueueTester
from django_mq.workflows import duty
from django_mq.workflows.models import StepRun, WorkflowRun
from tests.stores.builders import declare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.workflows.conftest import Site


def fail(_message: Any) -> None:
    raise ValueError("no")


def test_a_step_runs_for_each_item_of_a_result_and_the_next_one_gets_all_results(site: Site) -> None:
    report = site.workflow("report")
    site.queue("index", lambda message: [message.body["site"] + n for n in range(3)])
    site.queue("analyse", lambda message: message.body * 2)
    site.queue("mail", lambda message: sum(step_of(message, using=site.alias).results["analyse"]))
    index = report.step("index", "index")
    analyse = report.step("analyse", "analyse", for_each=index)
    report.step("mail", "mail", after=[analyse])

    id_ = report.start({"site": 17}, using=site.alias)
    site.work_in_threads()

    assert site.state(id_) == "succeeded"
    results = workflow_results(id_, using=site.alias)
    assert dict(results) == {"index": [17, 18, 19], "analyse": [34, 36, 38], "mail": 108}
    assert [queue for queue, _ in site.handled] == ["index", "analyse", "analyse", "analyse", "mail"]


def test_a_workflow_of_a_transaction_that_is_rolled_back_does_not_exist(site: Site) -> None:
    flow = site.workflow("flow")
    flow.step("first", site.queue("work"))
    with transaction.atomic(using=site.alias):
        flow.start(using=site.alias)
        transaction.set_rollback(True, using=site.alias)

    assert not WorkflowRun.objects.using(site.alias).exists()
    assert not Message.objects.using(site.alias).exists()


def test_steps_run_by_the_ends_of_those_before_them_and_by_their_conditions(site: Site) -> None:
    flow = site.workflow("flow")
    site.queue("work", lambda message: message.body)
    site.queue("bad", fail)
    good = flow.step("good", "work")
    bad = flow.step("bad", "bad")
    flow.step("skipped", "work", after=[good], when=lambda results: results["good"] != 5)
    flow.step("after skipped", "work", after=["skipped"])
    flow.step("chosen", "work", after=[good], when=lambda results: results.input == 5)
    flow.step("joined", "work", after=["skipped", "chosen"], body=lambda results: results["chosen"] + 1)
    flow.step("blocked", "work", after=[good, bad])
    flow.step("after blocked", "work", after=["blocked"])
    flow.step("on failure", "work", after=["after blocked"], runs_on="failure")
    flow.step("on failure of good", "work", after=[good], runs_on="failure")
    flow.step("in the end", "work", after=[bad, good], runs_on="end")
    flow.step("wrong condition", "work", after=[good], when=lambda results: results["nothing"])
    flow.step("none", "work", for_each=lambda _results: [])
    flow.step("no list", "work", for_each=good)

    id_ = flow.start(5, using=site.alias)
    site.work()

    assert site.steps(id_) == {
        "good": "succeeded",
        "bad": "failed",
        "skipped": "skipped",
        "after skipped": "skipped",
        "chosen": "succeeded",
        "joined": "succeeded",
        "blocked": "blocked",
        "after blocked": "blocked",
        "on failure": "succeeded",
        "on failure of good": "skipped",
        "in the end": "succeeded",
        "wrong condition": "failed",
        "none": "succeeded",
        "no list": "failed",
    }
    assert site.state(id_) == "failed"
    assert workflow_results(id_, using=site.alias)["joined"] == 6


def test_a_retry_keeps_what_has_succeeded(site: Site) -> None:
    flow = site.workflow("flow")
    site.queue("list", lambda _message: [1, 2, 3])
    site.queue("work", lambda message: fail(message) if message.body == 2 else message.body)
    site.queue("end", lambda message: step_of(message, using=site.alias).results["each"])
    each = flow.step("each", "work", for_each=flow.step("list", "list"))
    flow.step("end", "end", after=[each])
    id_ = flow.start(key="one", using=site.alias)
    with pytest.raises(WorkflowRuns):
        flow.start(key="one", using=site.alias)
    site.work()
    assert (site.state(id_), site.steps(id_)["each 1"], site.run(id_).reason) == ("failed", "failed", "each")

    site.handled.clear()
    site.queue("work")
    retry_workflow(id_, using=site.alias)
    with pytest.raises(WorkflowRefused):
        retry_workflow(id_, using=site.alias)
    site.work()

    assert site.handled == [("work", 2), ("end", None)]
    assert workflow_results(id_, using=site.alias)["end"] == [1, 2, 3]
    assert not Message.objects.using(site.alias).exists()  # the dead letter, too
    assert flow.start(key="one", using=site.alias) != id_


def test_a_dead_letter_that_is_redriven_lets_its_workflow_go_on(site: Site) -> None:
    flow = site.workflow("flow")
    site.queue("work", fail)
    flow.step("second", site.queue("next"), after=[flow.step("first", "work")])
    id_ = flow.start(using=site.alias)
    site.work()
    assert site.steps(id_) == {"first": "failed", "second": "blocked"}

    site.queue("work")
    redrive([message.message_id for message in Message.objects.using(site.alias)], using=site.alias)
    site.work()

    assert (site.state(id_), site.steps(id_)) == ("succeeded", {"first": "succeeded", "second": "succeeded"})


def test_what_has_succeeded_is_undone_in_reverse_order_and_a_retry_does_it_again(site: Site) -> None:
    flow = site.workflow("flow")
    for name in ("book", "pay", "unbook", "refund"):
        site.queue(name)
    site.queue("refund", lambda message: step_of(message, using=site.alias).result)
    site.queue("ship", fail)
    book = flow.step("book", "book", compensate="unbook")
    pay = flow.step("pay", "pay", after=[book], for_each=lambda _: [1, 2], compensate="refund")
    flow.step("ship", "ship", after=[pay])
    id_ = flow.start("trip", using=site.alias)
    site.work()

    done = [queue for queue, _ in site.handled]
    assert done == ["book", "pay", "pay", "ship", "refund", "refund", "unbook"]
    assert site.state(id_) == "failed"
    assert set(site.steps(id_).values()) == {"compensated", "failed"}

    site.queue("ship")
    retry_workflow(id_, using=site.alias)
    site.work()
    assert [queue for queue, _ in site.handled[7:]] == ["book", "pay", "pay", "ship"]
    assert site.state(id_) == "succeeded"


def test_a_compensation_that_fails_ends_the_workflow(site: Site) -> None:
    flow = site.workflow("flow")
    site.queue("undo", fail)
    flow.step("bad", site.queue("bad", fail), after=[flow.step("good", site.queue("good"), compensate="undo")])
    id_ = flow.start(using=site.alias)
    site.work()

    assert (site.state(id_), site.steps(id_)) == ("failed", {"good": "stuck", "bad": "failed"})
    assert "good is not compensated" in site.run(id_).reason


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_workflow_that_is_stopped_begins_nothing_more_and_is_undone(site: Site, how: str) -> None:
    flow = site.workflow("flow")
    first = flow.step("first", site.queue("first"), compensate=site.queue("undo"))
    flow.step("later", site.queue("later"), after=[first], delay=3600)
    flow.step("last", site.queue("last"), after=["later"])
    with QueueTester(using=site.alias) as mq:
        id_ = flow.start(deadline=60, using=site.alias)
        site.work()
        if how == "cancel":
            cancel_workflow(id_, reason="not needed", using=site.alias)
        else:
            mq.move_clock(61)
            assert duty.stop_late(shared_store(site.alias), 10) == 1
        site.work()

    assert site.steps(id_) == {"first": "compensated", "later": "cancelled", "last": "cancelled"}
    expected = ("cancelled", "not needed") if how == "cancel" else ("failed", duty.LATE)
    assert (site.state(id_), site.run(id_).reason) == expected
    assert [queue for queue, _ in site.handled] == ["first", "undo"]
    with pytest.raises(WorkflowRefused):
        cancel_workflow(id_, using=site.alias)


def test_a_step_is_a_workflow_or_starts_some_and_followers_wait_for_all_that_is_nested(site: Site) -> None:
    inner, middle, outer = site.workflow("inner"), site.workflow("middle"), site.workflow("outer")
    site.queue("leaf")

    def graft(flow: Workflow) -> Callable[[Any], str]:
        def handle(message: Any) -> str:
            step = step_of(message, using=site.alias)
            ids = {step.start(flow, number, key=str(number)) for number in (1, 1, 2)}
            return f"{len(ids)} started"

        return handle

    inner.step("leaf", "leaf")
    site.queue("graft inner", graft(inner))
    middle.step("graft", "graft inner")
    site.queue("graft middle", graft(middle))
    outer.step("whole", inner)
    outer.step("graft", "graft middle", after=["whole"])
    outer.step("each", inner, for_each=lambda _results: ["a", "b"], after=["graft"])
    outer.step("end", site.queue("end"), after=["each"])

    id_ = outer.start("x", using=site.alias)
    site.work()

    assert set(site.steps(id_).values()) == {"succeeded"}
    results = workflow_results(id_, using=site.alias)
    assert results["whole"] == {"leaf": "x"}
    assert results["graft"] == "2 started"
    assert results["each"] == [{"leaf": "a"}, {"leaf": "b"}]
    queues = [queue for queue, _ in site.handled]
    assert queues.count("leaf") == 1 + 4 + 2
    assert queues[-1] == "end"


def test_a_sub_workflow_that_fails_is_retried_and_cancelled_with_the_whole(site: Site) -> None:
    inner, outer = site.workflow("inner"), site.workflow("outer")
    inner.step("second", site.queue("second", fail), after=[inner.step("first", site.queue("first"))])
    outer.step("end", site.queue("end"), after=[outer.step("inner", inner)])
    id_ = outer.start(using=site.alias)
    site.work()
    assert (site.state(id_), site.steps(id_)) == ("failed", {"inner": "failed", "end": "blocked"})
    child = WorkflowRun.objects.using(site.alias).get(name="inner").pk
    with pytest.raises(WorkflowRefused):
        retry_workflow(child, using=site.alias)

    site.queue("second")
    retry_workflow(id_, using=site.alias)
    assert (site.state(id_), site.state(child)) == ("running", "running")
    cancel_workflow(id_, using=site.alias)
    site.work()
    assert (site.state(id_), site.state(child)) == ("cancelled", "cancelled")
    retry_workflow(id_, using=site.alias)
    site.work()
    assert (site.state(id_), [queue for queue, _ in site.handled].count("first")) == ("succeeded", 1)


def test_what_is_wrong_is_said_before_anything_is_written(site: Site) -> None:
    flow, other = site.workflow("flow"), site.workflow("other")
    first = flow.step("first", site.queue("work"))
    wrong: list[Callable[[], object]] = [
        lambda: Workflow("flow"),
        lambda: Workflow(""),
        lambda: flow.step("first", "work"),
        lambda: flow.step("", "work"),
        lambda: flow.step("a", "work", after=["later"]),
        lambda: other.step("a", "work", after=[first]),
        lambda: flow.step("a", "work", for_each=7),  # type: ignore[arg-type]
        lambda: flow.step("a", "work", when=True),  # type: ignore[arg-type]
        lambda: flow.step("a", "work", runs_on="never"),
        lambda: flow.step("a", 7),  # type: ignore[arg-type]
        lambda: flow.step("a", "work", queue="x"),
        lambda: flow.step("a", "work", priority=11),
        lambda: flow.step("a", other, priority=3),
        lambda: other.start(using=site.alias),
    ]
    for try_it in wrong:
        with pytest.raises(WrongWorkflow):
            try_it()
    other.step("a", "nowhere")
    for error, start in [
        (UnknownQueue, lambda: other.start(using=site.alias)),
        (BodyNotSerialisable, lambda: flow.start(object(), using=site.alias)),
        (UnsupportedRule, lambda: flow.start(using=MEMORY)),
        (UnknownWorkflow, lambda: retry_workflow("7", using=site.alias)),
        (UnknownWorkflow, lambda: cancel_workflow("01a22859-3bd4-7972-8dbd-96ff63a82435", using=site.alias)),
    ]:
        with pytest.raises(error):
            start()
    assert not WorkflowRun.objects.using(site.alias).exists()


def test_a_duty_ends_a_step_whose_message_is_gone_and_deletes_old_workflows_that_have_ended(site: Site) -> None:
    flow, store = site.workflow("flow"), shared_store(site.alias)
    flow.step("first", site.queue("work"))
    id_ = flow.start(using=site.alias)
    assert duty.mend(store, 10) == 0
    Message.objects.using(site.alias).all().delete()
    assert duty.mend(store, 10) == 1
    assert (site.state(id_), site.steps(id_)) == ("failed", {"first": StepState.FAILED.value})

    running = flow.start(using=site.alias)
    with QueueTester(using=site.alias) as mq:
        assert duty.prune(store, 10) == 0
        mq.move_clock(31 * 86400)
        assert duty.prune(store, 10) == 1
    assert list(WorkflowRun.objects.using(site.alias).values_list("pk", flat=True)) == [running]
    assert StepRun.objects.using(site.alias).count() == 1


def test_a_coroutine_asks_for_its_step_and_starts_sub_workflows(site: Site) -> None:
    flow, inner = site.workflow("flow"), site.workflow("inner")
    inner.step("leaf", site.queue("leaf"))
    site.queue("work")

    async def handle(message: Any) -> Any:
        await asyncio.sleep(0)
        step = step_of(message, using=site.alias)
        return [step.input, step.results["first"], str(step.start(inner, key="one"))]

    declare(shared_store(site.alias), "coroutines")
    consumer("coroutines", max_attempts=1)(handle)
    try:
        flow.step("second", "coroutines", after=[flow.step("first", "work")])
        id_ = flow.start(7, using=site.alias)
        with QueueTester(using=site.alias) as mq:
            mq.drain(["work", "coroutines", "leaf"])
    finally:
        forget("coroutines")
    child = WorkflowRun.objects.using(site.alias).get(name="inner")
    assert workflow_results(id_, using=site.alias)["second"] == [7, 7, str(child.pk)]
    assert (site.state(id_), child.state) == ("succeeded", "succeeded")
