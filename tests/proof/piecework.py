"""Work in several pieces: chords, batches, workflows and durable messages, each with what it promises in the end.

A kind begins a piece in the transaction that is open, and what it does for it leaves notes. A piece has an id by
its kind and number, so that each process knows what was begun, and what is left to begin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from celery import chord
from django.db import connections, transaction
from django.db.models import Q

from django_mq.api import (
    Reject,
    Workflow,
    batch,
    consumer,
    current_batch,
    emit,
    find_batch,
    publish,
    publish_many,
    step_of,
)
from django_mq.batches.models import BatchMember, MessageBatch
from django_mq.durable.models import DurableEvent, DurableStep
from django_mq.engine.decisions.batches import CALLBACK_HEADER
from django_mq.models import History
from django_mq.results.models import Chord, ChordMember, StoredResult
from django_mq.workflows.models import StepRun, WorkflowRun
from tests.proof import celery_worker
from tests.proof.notes import note, noted

if TYPE_CHECKING:
    from collections.abc import Iterable

    #: How often each note was written, by piece.
    Notes = dict[UUID, Counter[str]]

MEMBERS: Final = 5
NAP_SECONDS: Final = 0.05
LIVE_STATES: Final = ("open", "running")


def make_table(alias: str) -> None:
    """Make the table of what was done from outside: a process that was killed may have committed it or not."""
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TABLE proof_deed (deed varchar(60) PRIMARY KEY)")


def deeds(alias: str) -> set[str]:
    """Return what was done."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT deed FROM proof_deed")
        return {deed for (deed,) in cursor.fetchall()}


def claim_deed(deed: str) -> None:
    """Note that something is done, in the open transaction. Raises IntegrityError if it was."""
    with connections["default"].cursor() as cursor:
        cursor.execute("INSERT INTO proof_deed VALUES (%s)", [deed])


class Kind(ABC):
    """One kind of work."""

    name: ClassVar[str]
    #: The queues of handlers of ``mq_worker``.
    queues: ClassVar[tuple[str, ...]] = ()
    #: What is done from outside besides beginning.
    later: ClassVar[str] = ""

    def piece(self, number: int) -> UUID:
        """Return the id of a piece."""
        return uuid5(NAMESPACE_OID, f"{self.name} {number}")

    def deed(self, what: str, number: int) -> str:
        """Return the name of what is done from outside."""
        return f"{what} {self.name} {number}"

    def declare(self) -> None:  # noqa: B027 - not each has handlers
        """Declare the handlers."""

    @abstractmethod
    def begin(self, number: int) -> None:
        """Begin a piece, in the open transaction."""

    def due_later(self, numbers: Iterable[int]) -> list[int]:
        """Return for which of these pieces something can be done from outside now."""
        return []

    def do_later(self, number: int) -> None:
        """Do it, in the open transaction."""
        raise NotImplementedError

    @abstractmethod
    def left(self, alias: str, count: int) -> int:
        """Return how many pieces have not ended."""

    def notes(self, number: int) -> Counter[str]:
        """Return how often each note is written for a piece."""
        return Counter()

    def is_exact(self, number: int, what: str) -> bool:
        """Whether a note is written once over all deaths; else it is written at least once."""
        return True

    @abstractmethod
    def wrong(self, alias: str, count: int) -> list[str]:
        """Return what is not as promised, besides notes."""

    def all_wrong(self, alias: str, count: int, found: Notes) -> list[str]:
        """Return all that is not as promised."""
        return [*self._wrong_notes(count, found), *self.wrong(alias, count)]

    def _wrong_notes(self, count: int, found: Notes) -> list[str]:
        wrong = []
        for number in range(count):
            seen = {
                what: times if self.is_exact(number, what) else min(times, 1)
                for what, times in found.get(self.piece(number), Counter()).items()
            }
            if seen != self.notes(number):
                wrong.append(f"{self.name} {number} did {seen}, not {dict(self.notes(number))}")
        return wrong


class Chords(Kind):
    """Celery's chords, whose results are in the database. A member is retried; half of them acknowledge early."""

    name = "chord"

    def begin(self, number: int) -> None:
        """Publish the members, and the body with them."""
        app, task = celery_worker.app, ("proof.late", "proof.early")[number % 2]
        members = [app.signature(task, args=(place,)) for place in range(MEMBERS)]
        chord(members, app=app)(app.signature("proof.total", task_id=str(self.piece(number))))

    def _bodies(self, alias: str, count: int) -> dict[str, tuple[str, str]]:
        ids = [str(self.piece(number)) for number in range(count)]
        rows = StoredResult.objects.using(alias).filter(task_id__in=ids, done_at__isnull=False)
        return {
            task_id: (status, result)
            for task_id, status, result in rows.values_list("task_id", "status", "result")
        }

    def left(self, alias: str, count: int) -> int:
        """Return how many bodies have no result."""
        return count - len(self._bodies(alias, count))

    def wrong(self, alias: str, count: int) -> list[str]:
        """Compare the results of bodies, and how often these were published."""
        bodies, total = self._bodies(alias, count), str(sum(range(MEMBERS)))
        found: dict[str, set[UUID]] = defaultdict(set)
        for task_id, message in (
            History.objects.using(alias)
            .filter(correlation_id__in=list(bodies))
            .values_list("correlation_id", "message_id")
        ):
            found[task_id].add(message)
        wrong = []
        for number in range(count):
            body = str(self.piece(number))
            status, result = bodies.get(body, ("PENDING", ""))
            # An early one whose member was lost with its worker has failed, and its body is not published.
            is_lost = number % 2 == 1 and status == "FAILURE" and "ChordError" in result
            if not is_lost and (status, result) != ("SUCCESS", total):
                wrong.append(f"chord {number} ended with {status} {result[:200]}")
            if len(found[body]) != (not is_lost):
                wrong.append(f"the body of chord {number} was published {len(found[body])} times")
        chords = Chord.objects.using(alias)
        if (ended := chords.exclude(ended_at=None).filter(carried_until=None).count()) != count:
            wrong.append(f"{ended} of {chords.count()} chords have ended, not {count}")
        if members := ChordMember.objects.using(alias).count():
            wrong.append(f"{members} members of chords are left")
        return wrong


class Batches(Kind):
    """Batches of messages, of which a member is refused and another adds one, and of Celery's tasks.

    Some batches are reopened by a redrive of the refused member. The callback of tasks is a task, too.
    """

    name = "batch"
    queues = ("member", "told")
    later = "redrive"

    @staticmethod
    def _is_of_tasks(number: int) -> bool:
        return number % 2 == 1

    @staticmethod
    def _is_redriven(number: int) -> bool:
        return number % 4 == 0

    def declare(self) -> None:
        """Declare handlers of the members and of the callbacks."""
        consumer("member", transactional=True, max_attempts=0)(self._handle)
        consumer("told", transactional=True, max_attempts=0)(self._told)

    def begin(self, number: int) -> None:
        """Begin a batch with its members."""
        piece, app = str(self.piece(number)), celery_worker.app
        told = {f"on_{what}": ("told", [what, piece]) for what in ("complete", "success", "failure")}
        if not self._is_of_tasks(number):
            with batch(piece, **told):
                publish_many([("member", [place, piece]) for place in range(MEMBERS)])
            return
        told["on_complete"] = app.signature("proof.told", args=(piece,), ignore_result=True)
        with batch(piece, **told):
            for place in range(MEMBERS):
                app.send_task("proof.part", (place,), ignore_result=True)

    @staticmethod
    def _handle(message: Any) -> None:
        place, piece = message.body
        if place == 1 and not noted("forgiven", "default")[UUID(piece)]:
            raise Reject("refused")
        note(f"member {place}", [UUID(piece)])
        if place == 2:
            with current_batch(message):
                publish("member", [MEMBERS, piece])

    @staticmethod
    def _told(message: Any) -> None:
        what, piece = message.body
        note(what, [UUID(piece)])

    def due_later(self, numbers: Iterable[int]) -> list[int]:
        """Return the batches that have failed and are to be redriven."""
        names = {str(self.piece(number)): number for number in numbers if self._is_redriven(number)}
        failed = MessageBatch.objects.filter(state="failed", name__in=list(names))
        return [names[name] for name in failed.values_list("name", flat=True)]

    def do_later(self, number: int) -> None:
        """Redrive what was refused, which is handled now."""
        piece = self.piece(number)
        note("forgiven", [piece])
        row = MessageBatch.objects.get(name=str(piece))
        if (redriven := find_batch(row.pk).redrive()) != 1:
            raise AssertionError(f"{redriven} members of batch {number} are redriven")

    def left(self, alias: str, count: int) -> int:
        """Return how many batches run, or have callbacks that are not published, or are to be redriven."""
        rows = MessageBatch.objects.using(alias)
        redriven = [str(self.piece(number)) for number in range(count) if self._is_redriven(number)]
        to_redrive = rows.filter(name__in=redriven).exclude(state="succeeded").count()
        others = rows.exclude(name__in=redriven)
        # The maintenance publishes the callback of tasks.
        others = others.filter(Q(state__in=LIVE_STATES) | Q(complete_at=None))
        return count - rows.count() + to_redrive + others.count()

    def notes(self, number: int) -> Counter[str]:
        """Return what members and callbacks note."""
        if self._is_of_tasks(number):
            return Counter({"complete": 1, "failure": 1})
        done = {f"member {place}": 1 for place in range(MEMBERS + 1) if place != 1} | {"complete": 1, "failure": 1}
        return Counter(done | ({"member 1": 1, "forgiven": 1, "success": 1} if self._is_redriven(number) else {}))

    def is_exact(self, number: int, what: str) -> bool:
        """Return False for what a task notes: it runs again if it ends with its worker."""
        return not (self._is_of_tasks(number) and what == "complete")

    def wrong(self, alias: str, count: int) -> list[str]:
        """Compare the counts of the batches, and how often callbacks were published."""
        wrong, rows = [], {row.name: row for row in MessageBatch.objects.using(alias)}
        if len(rows) != MessageBatch.objects.using(alias).count():
            wrong.append("a batch was begun twice")
        headers = History.objects.using(alias).filter(headers__has_key=CALLBACK_HEADER)
        told: dict[str, set[UUID]] = defaultdict(set)
        for message, found in headers.values_list("message_id", "headers"):
            told[found[CALLBACK_HEADER]].add(message)
        members = Counter(BatchMember.objects.using(alias).values_list("batch", flat=True))
        for number in range(count):
            row = rows.get(str(self.piece(number)))
            tasks, redriven = self._is_of_tasks(number), self._is_redriven(number)
            right = (0, MEMBERS - 1, 1, 0) if tasks else (0, MEMBERS + 1, 0, 0) if redriven else (0, MEMBERS, 1, 0)
            seen = None if row is None else (row.state, tuple(row.counts), members[row.pk], len(told[str(row.pk)]))
            expected = ("succeeded" if redriven else "failed", right, sum(right), 3 if redriven else 2)
            if seen != expected:
                wrong.append(f"batch {number} ended with {seen}, not {expected}")
        return wrong


class Workflows(Kind):
    """A workflow that fans out, joins a sub-workflow, and retries steps. Of four, one fails, and is undone."""

    name = "workflow"
    queues = ("first", "each", "last", "undo", "leaf")
    items: ClassVar = 3

    def __init__(self) -> None:
        self._flow: Workflow | None = None

    @property
    def flow(self) -> Workflow:
        """The workflow, declared once in a process."""
        if self._flow is None:
            inner, flow = Workflow("inner"), Workflow("flow")
            inner.step("leaf two", "leaf", after=[inner.step("leaf one", "leaf")])
            first = flow.step("first", "first", compensate="undo")
            each = flow.step("each", "each", for_each=first, compensate="undo")
            flow.step("last", "last", after=[each, flow.step("whole", inner, after=[first])])
            self._flow = flow
        return self._flow

    def declare(self) -> None:
        """Declare the handlers of all steps, and the workflow."""
        for queue in self.queues:
            consumer(queue, transactional=True, max_attempts=0)(self._handle)
        assert self.flow

    def begin(self, number: int) -> None:
        """Start the workflow."""
        self.flow.start([str(self.piece(number)), number], key=str(self.piece(number)))

    def _handle(self, message: Any) -> Any:
        step = step_of(message)
        piece, number = step.input
        name = f"{'un' if step.is_compensation else ''}{step.name}{'' if step.number is None else step.number}"
        note(name, [UUID(piece)])
        if step.name == "last" and number % 4 == 3:
            raise Reject("this one is to fail")
        if step.number == number % 5 and message.attempt == 1:
            raise ValueError("this one is to be tried again")
        return list(range(self.items)) if step.name == "first" else step.input

    def left(self, alias: str, count: int) -> int:
        """Return how many workflows have not ended."""
        ended = WorkflowRun.objects.using(alias).filter(name="flow", state__in=["succeeded", "failed"])
        return count - ended.count()

    def notes(self, number: int) -> Counter[str]:
        """Return what the steps note. What fails is rolled back."""
        each = [f"each{item}" for item in range(self.items)]
        end = ["unfirst", *(f"un{name}" for name in each)] if number % 4 == 3 else ["last"]
        return Counter(["first", *each, "leaf one", "leaf two", *end])

    def wrong(self, alias: str, count: int) -> list[str]:
        """Compare the states of workflows and steps."""
        runs = list(WorkflowRun.objects.using(alias).values_list("name", "label", "state"))
        failed = {str(self.piece(number)) for number in range(3, count, 4)}
        right = Counter(
            ("flow", piece, "failed" if piece in failed else "succeeded")
            for piece in (str(self.piece(number)) for number in range(count))
        )
        seen = Counter(each for each in runs if each[0] == "flow")
        wrong = [
            f"workflow {each} is there {seen[each]} times, not {right[each]}"
            for each in seen | right
            if seen[each] != right[each]
        ]
        inner = Counter(state for name, _, state in runs if name == "inner")
        if inner != Counter({"succeeded": count}):
            wrong.append(f"sub-workflows ended so: {dict(inner)}")
        states = Counter(StepRun.objects.using(alias).order_by().values_list("state", flat=True))
        undone = (count // 4) * (self.items + 2)  # its first step, the items, and the row that stands for these
        if set(states) - {"succeeded", "compensated", "failed"} or states["failed"] != count // 4:
            wrong.append(f"steps ended so: {dict(states)}, of which about {undone} are undone")
        return wrong


class DurableMessages(Kind):
    """Durable handlers: a step, a wait for an event, a sleep, and a step that gets what came before.

    Half of them run in threads, and their steps are transactions. The others are coroutines.
    """

    name = "durable"
    queues = ("threads", "coroutines")
    later = "pack"

    def declare(self) -> None:
        """Declare both handlers."""

        def handle(message: Any) -> None:
            message.step("charge", note, "charged", [UUID(message.body)])
            box = message.wait_for("packed", message.body)
            message.sleep(seconds=NAP_SECONDS)
            message.step("ship", note, "shipped", [UUID(box)])

        async def ahandle(message: Any) -> None:
            await message.astep("charge", note, "charged", [UUID(message.body)])
            box = await message.await_for("packed", message.body)
            await message.asleep(seconds=NAP_SECONDS)
            await message.astep("ship", note, "shipped", [UUID(box)])

        consumer("threads", durable=True, transactional=True, max_attempts=0)(handle)
        consumer("coroutines", durable=True, max_attempts=0)(ahandle)

    def begin(self, number: int) -> None:
        """Publish the message."""
        publish(self.queues[number % 2], str(self.piece(number)))

    def due_later(self, numbers: Iterable[int]) -> list[int]:
        """Return all: an event may come before its message."""
        return list(numbers)

    def do_later(self, number: int) -> None:
        """Emit the event."""
        piece = self.piece(number)
        note("packed", [piece])
        if not emit("packed", str(piece), str(piece)):
            raise AssertionError(f"the event of {number} was there")

    def left(self, alias: str, count: int) -> int:
        """Return how many were not accepted."""
        return count - self._accepted(alias).values("message_id").distinct().count()

    def _accepted(self, alias: str) -> Any:
        history = History.objects.using(alias).filter(outcome=History.Outcome.ACCEPTED)
        return history.filter(queue_name__in=self.queues)

    def notes(self, number: int) -> Counter[str]:
        """Return what steps and the publisher note."""
        return Counter(["charged", "packed", "shipped"])

    def is_exact(self, number: int, what: str) -> bool:
        """Return False for steps of a coroutine: it has no transaction."""
        return number % 2 == 0 or what == "packed"

    def wrong(self, alias: str, count: int) -> list[str]:
        """Look for messages that were accepted twice, and for records that are left."""
        times = Counter(self._accepted(alias).values_list("message_id", flat=True))
        wrong = (
            [f"{sum(times.values())} were accepted, {len(times)} of them once"]
            if sum(times.values()) != count
            else []
        )
        if records := DurableStep.objects.using(alias).count():
            wrong.append(f"{records} records of durable handlers are left")
        events = DurableEvent.objects.using(alias).exclude(emitted_at=None).count()
        return wrong + ([f"{events} events, not {count}"] if events != count else [])


KINDS: Final[tuple[Kind, ...]] = (Chords(), Batches(), Workflows(), DurableMessages())
QUEUES: Final = tuple(queue for kind in KINDS for queue in kind.queues)


def notes_by_piece(alias: str) -> Notes:
    """Return all notes."""
    found: Notes = defaultdict(Counter)
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT message, kind FROM proof_note")
        for piece, what in cursor.fetchall():
            found[UUID(piece)][what] += 1
    return found


def do_once(kind: Kind, what: str, number: int) -> None:
    """Begin a piece, or do what comes later, in a transaction. Raises IntegrityError if that was done."""
    with transaction.atomic():
        claim_deed(kind.deed(what, number))
        if what == "begin":
            kind.begin(number)
        else:
            kind.do_later(number)
