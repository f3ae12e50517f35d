"""Small programs whose every statement may be the last: a durable handler, a workflow and a batch.

What happens outside of handlers is a transaction that also writes a note, as an application changes a row of its
own. So a process that comes later knows what is left to do.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django.db import transaction

from django_mq.api import Reject, Workflow, batch, consumer, emit, find_batch, publish, publish_many, step_of
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.coroutines.pool import EventLoopPool
from django_mq.delivery.consumer.duties import DUTIES, added_duties, run_duties
from django_mq.delivery.consumer.handlers import registered
from django_mq.delivery.consumer.pool import Pool
from django_mq.delivery.consumer.worker import Worker
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.models import History, Message
from django_mq.stores.clock import clock
from django_mq.stores.registry import shared_store
from django_mq.workflows.models import StepRun, WorkflowRun
from tests.proof.notes import all_noted, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.delivery.codecs import ReceivedMessage
    from django_mq.delivery.consumer.pool import MakePool
    from django_mq.seams.extension import Duty

#: The queue of the handlers, and what is done for each message of a place.
QUEUE: Final = "proof"
#: The name of its workflow.
FLOW: Final = "report"
CASE: Final = UUID(int=35)
#: The clock moves by so much at a time; sleeps and the sessions of dead processes are shorter.
LATER: Final = timedelta(seconds=60)
SLEEP_SECONDS: Final = 40


def _duties() -> list[Duty]:
    """Return the duties that change messages, and what belongs to them."""
    added = [duty for duty in added_duties() if duty.name.startswith(("batches.", "durable.", "workflows."))]
    return [*(duty for duty in DUTIES if duty.name in {"reap", "promote"}), *added]


class Errand:
    """A program: what is done from outside, in this order, and what has to be done in the end."""

    #: Whether steps and what they write commit together.
    is_exact = True
    pool: MakePool = Pool
    #: How often each message is accepted.
    ends: tuple[int, ...] = (1,)

    def __init__(self, alias: str) -> None:
        self.alias = alias
        #: The name of each note that must be there once in the end, and what writes it from outside.
        self.outside: dict[str, Callable[[], Any]] = {}
        #: The notes that steps write.
        self.effects: tuple[str, ...] = ()

    def run(self) -> None:
        """Do all of it, in this process."""
        for name in self.outside:
            self.do(name)
            self.work()
            self.go_on_later()

    def do(self, name: str) -> None:
        """Do what is done from outside, in a transaction."""
        with transaction.atomic(using=self.alias):
            note(name, [CASE], self.alias)
            self.outside[name]()

    def work(self) -> None:
        """Handle what is ready."""
        Worker(registered(QUEUE), threads=1, pool=self.pool, using=self.alias).run(until_empty=True)

    def go_on_later(self) -> None:
        """Let a minute pass, and handle what is ready then, also what a dead process had."""
        clock.offset += LATER
        run_duties(shared_store(self.alias), _duties())
        self.work()

    def finish(self) -> None:
        """Do what another process has left: later, when its session has expired."""
        for _ in range(8):
            missing = [name for name in self.outside if not self.noted[name]]
            if not missing and not self.problems():
                return
            self.go_on_later()
            # Not before what comes before it, as far as that can go.
            if missing:
                self.do(missing[0])

    @property
    def noted(self) -> Counter[str]:
        return all_noted(self.alias)

    @property
    def is_begun(self) -> bool:
        return self.noted[next(iter(self.outside))] > 0

    def problems(self) -> list[str]:
        """Return what is not as promised in the end."""
        once = Counter([*self.outside, *self.effects])
        done = self.noted
        if not self.is_exact:  # a death may let a step be done again
            done = Counter(
                {name: min(number, once[name]) if number == 2 else number for name, number in done.items()}
            )
        messages = Message.objects.using(self.alias)
        accepted = History.objects.using(self.alias).filter(outcome=History.Outcome.ACCEPTED)
        found: list[tuple[str, Any, Any]] = [
            ("what was done", dict(done), dict(once)),
            ("messages left", list(messages.values_list("state", "attempts")), []),
            ("messages accepted", _times(accepted), list(self.ends)),
            *self.rows(),
        ]
        return [f"{what}: {seen}, not {right}" for what, seen, right in found if seen != right]

    def rows(self) -> list[tuple[str, Any, Any]]:
        """Return what else has to be there, each with what is there."""
        raise NotImplementedError

    def forget(self) -> None:
        """Remove the rows of this run, and set the clock."""
        clock.offset = timedelta(0)
        for model in (
            Message,
            History,
            DurableStep,
            DurableEvent,
            StepRun,
            WorkflowRun,
            BatchMember,
            MessageBatch,
        ):
            model.objects.using(self.alias).all().delete()


def _times(history: Any) -> list[int]:
    """Return how often each message was accepted."""
    return sorted(Counter(history.values_list("message_id", flat=True)).values())


class Purchase(Errand):
    """A durable handler: a step, a sleep, a wait for an event that comes from outside, and a step."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.outside = {"ordered": self._order, "packed": self._pack}
        self.effects = ("charged", "sent")
        self._declare()

    def _declare(self) -> None:
        consumer(QUEUE, durable=True, transactional=True, max_attempts=0)(self._handle)

    def _order(self) -> None:
        publish(QUEUE, "order", using=self.alias)

    def _pack(self) -> None:
        emit("packed", str(CASE), {"box": 12}, using=self.alias)

    def _do(self, name: str, given: Any) -> Any:
        note(name, [CASE], self.alias)
        return given

    def _handle(self, message: Any) -> None:
        receipt = message.step("charge", self._do, "charged", "R-1")
        message.sleep(seconds=SLEEP_SECONDS)
        box = message.wait_for("packed", str(CASE))["box"]
        message.step("send", self._do, "sent", [receipt, box])

    def rows(self) -> list[tuple[str, Any, Any]]:
        emitted = DurableEvent.objects.using(self.alias).exclude(emitted_at=None)
        return [
            ("records", list(DurableStep.objects.using(self.alias).values_list("kind", "name")), []),
            ("events", list(emitted.values_list("name", "payload")), [("packed", '{"box":12}')]),
        ]


class AsyncPurchase(Purchase):
    """The same by a coroutine function, whose steps have no transactions."""

    is_exact = False
    pool = staticmethod(partial(EventLoopPool, threads=1))

    def _declare(self) -> None:
        consumer(QUEUE, durable=True, max_attempts=0)(self._ahandle)

    async def _ahandle(self, message: Any) -> None:
        receipt = await message.astep("charge", self._do, "charged", "R-1")
        await message.asleep(seconds=SLEEP_SECONDS)
        box = (await message.await_for("packed", str(CASE)))["box"]
        await message.astep("send", self._do, "sent", [receipt, box])


class Report(Errand):
    """A workflow: two steps, and one that gets the results of both."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.outside = {"started": self._start}
        self.effects = ("left", "right", "joined")
        self.ends = (1, 1, 1)
        consumer(QUEUE, transactional=True, max_attempts=0)(self._handle)
        self._flow = Workflow(FLOW)
        left, right = self._flow.step("left", QUEUE), self._flow.step("right", QUEUE)
        self._flow.step("joined", QUEUE, after=[left, right])

    def _start(self) -> None:
        self._flow.start(str(CASE), using=self.alias)

    def _handle(self, message: ReceivedMessage) -> Any:
        step = step_of(message)
        note(step.name, [CASE], self.alias)
        return [step.results["left"], step.results["right"]] if step.name == "joined" else step.name

    def rows(self) -> list[tuple[str, Any, Any]]:
        steps = StepRun.objects.using(self.alias).order_by("name").values_list("name", "state", "result")
        results = {"joined": '["left","right"]', "left": '"left"', "right": '"right"'}
        return [
            (
                "workflows",
                list(WorkflowRun.objects.using(self.alias).values_list("state", flat=True)),
                ["succeeded"],
            ),
            ("steps", list(steps), [(name, "succeeded", result) for name, result in results.items()]),
        ]


class Import(Errand):
    """A batch of two messages: one is refused, and is handled when it was redriven. Each callback comes once."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.outside = {"begun": self._begin, "redriven": self._redrive}
        self.effects = ("good", "bad", "complete", "failure", "success")
        self.ends = (1, 1, 1, 1, 1)
        consumer(QUEUE, transactional=True, max_attempts=0)(self._handle)

    def _begin(self) -> None:
        told = {f"on_{what}": (QUEUE, what) for what in ("complete", "failure", "success")}
        with batch("import", **told, using=self.alias):
            publish_many([(QUEUE, "good"), (QUEUE, "bad")], using=self.alias)

    def do(self, name: str) -> None:
        """Redrive when the batch has failed, and not while a dead process holds its messages."""
        if name == "begun" or MessageBatch.objects.using(self.alias).filter(state="failed").exists():
            super().do(name)

    def _redrive(self) -> None:
        [id_] = MessageBatch.objects.using(self.alias).values_list("id", flat=True)
        if find_batch(id_, using=self.alias).redrive() != 1:
            raise AssertionError("the refused member is not there")

    def _handle(self, message: ReceivedMessage) -> None:
        if message.body == "bad" and not self.noted["redriven"]:
            raise Reject("refused")
        note(message.body, [CASE], self.alias)

    def rows(self) -> list[tuple[str, Any, Any]]:
        found = MessageBatch.objects.using(self.alias).values_list("state", "succeeded", "failed", "problem")
        return [("batches", list(found), [("succeeded", 2, 0, "")])]


ERRANDS: Final[dict[str, Callable[[str], Errand]]] = {
    "purchase": Purchase,
    "async_purchase": AsyncPurchase,
    "report": Report,
    "import": Import,
}
