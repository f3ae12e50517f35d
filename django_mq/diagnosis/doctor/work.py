"""Look for expired leases, messages without a queue, unknown states, stuck queues and stalled operations."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Q, Subquery, TextField
from django.db.models.functions import Cast

from django_mq import __version__, conf
from django_mq.delivery.consumer.handlers import TASK_HEADERS, discover
from django_mq.delivery.operator.drift import differences
from django_mq.diagnosis.messages.criteria import put_together
from django_mq.diagnosis.state.fleet import fleet
from django_mq.diagnosis.state.overview import overview
from django_mq.diagnosis.state.unwanted import unwanted
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.engine.decisions.dead_letters import REJECTED, is_default, targets_of
from django_mq.engine.decisions.retries import releases_in
from django_mq.engine.options import LINKS, others_in
from django_mq.formats import COUNT_LIMIT, counted, plural
from django_mq.models import Message, Operation, Queue, WorkerSession
from django_mq.models.message import having, in_state
from django_mq.models.operation import stalled
from django_mq.models.times import UTCNow
from django_mq.seams.findings import notice, ok, problem
from django_mq.stores.connections import IDLE_SECONDS
from django_mq.stores.records import headers_in
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.db.models import QuerySet

    from django_mq.diagnosis.state.overview import QueueState
    from django_mq.seams.findings import Finding

#: An operation without progress for so long was not taken over: workers do that sooner, if they can.
TAKEN_OVER_SECONDS = 5 * STALLED_SECONDS
#: A lock of a queue is held for milliseconds.
HELD_SECONDS = 1.0
#: How often a message may be given back for a while without an attempt, before it is named; how many scheduled
#: messages of a queue are looked at; and how many queues in one statement.
MANY_RELEASES, RELEASES_READ, QUEUES_AT_ONCE = 100, 1_000, 100
Status = Message.Status
#: Kinds of messages.
TASKS, MESSAGES = "tasks", "messages"
START_MAINTENANCE = "Start a worker, or run manage.py mq_maintenance: it gives their messages back."


def look_at_leases(alias: str) -> Iterator[Finding]:
    """Find sessions past their deadline, and claimed messages without a session."""
    sessions = WorkerSession.objects.using(alias)
    expired = sessions.filter(deadline__lt=UTCNow())
    names = [session.name for session in expired[:5]]
    if names:
        number = expired.count()
        yield problem(
            "leases",
            f"{plural(number, 'dead worker session', 'is')} not reaped: {', '.join(names)}.",
            START_MAINTENANCE,
        )
    holders = sessions.filter(pk=OuterRef("session_id"))
    claimed = Message.objects.using(alias).filter(in_state(Message.Status.CLAIMED))
    unheld = _up_to_limit(claimed.filter(~Exists(holders)))
    if unheld:
        yield problem(
            "leases",
            f"{counted(unheld, 'message', 'is')} claimed by sessions that do not exist.",
            START_MAINTENANCE,
        )
    if not names and not unheld:
        yield ok(
            "leases",
            f"{plural(sessions.count(), 'worker session', 'is')} alive, and every claimed message belongs to one.",
        )


def look_at_locks(alias: str) -> Iterator[Finding]:
    """Find workers, and other connections, that keep a lock for which workers and publishers wait."""
    holders = shared_store(alias).server.lock_holders(HELD_SECONDS)
    for holder in holders:
        mend = (
            f"A worker that is stopped or unreachable is cut off after {IDLE_SECONDS} s, and continues when it is"
            f" back. Otherwise end the connection {holder.connection} in the database."
        )
        yield problem("locks", f"{holder}.", mend)
    if not holders:
        yield ok("locks", "No transaction keeps workers or publishers waiting for a queue's lock.")


def look_at_loops(alias: str) -> Iterator[Finding]:
    """Find workers whose loop stands still: they neither claim nor settle."""
    still = [worker for worker in fleet(using=alias) if not worker.stale and worker.is_shown_as("still")]
    for worker in still:
        yield problem(
            "loops",
            f"The loop of worker {worker.name} makes no turn: it claims and settles nothing, and keeps"
            f" {plural(worker.held, 'message')}.",
            f"If no long task runs in the process itself (a solo pool, green threads), restart the worker: process"
            f" {worker.pid} on {worker.host}",
        )
    if not still:
        yield ok("loops", "No worker stands still.")


def look_at_orphans(alias: str) -> Iterator[Finding]:
    """Find messages whose queue does not exist: it was deleted by hand or by another tool."""
    orphans = _orphans(alias)
    if orphans:
        mend = (
            "Restore the rows of django_mq_queue from a backup, or remove the messages in manage.py shell: "
            "Message.objects.exclude(queue__in=Queue.objects.all()).delete()"
        )
        yield problem("orphans", f"{counted(orphans, 'message', 'belongs')} to a queue that does not exist.", mend)
    else:
        yield ok("orphans", "Every message has its queue.")


def _orphans(alias: str) -> int:
    known = Queue.objects.using(alias).order_by().values_list("pk", flat=True)
    gone = sorted(set(shared_store(alias).queues.occupied()) - set(known))
    if not gone:
        return 0
    # Each state has an index that begins with the queue. look_at_states finds unknown states.
    rows = Message.objects.using(alias).filter(queue__in=gone).order_by().values_list("pk", flat=True)
    found = put_together([rows.filter(in_state(state)) for state in Message.Status])
    return len(found[:COUNT_LIMIT])


def look_at_states(alias: str) -> Iterator[Finding]:
    """Find states of messages and options of queues that this version does not know."""
    strange = shared_store(alias).queues.count_unknown(limit=COUNT_LIMIT)
    if strange:
        mend = (
            "No worker claims them. If a newer version has written them, run that version. If they were "
            "written by hand, set their state to 1 (ready) in the database."
        )
        yield problem(
            "states",
            f"{counted(strange, 'message', 'is')} in a state that django_mq {__version__} does not know.",
            mend,
        )
    words = list(_unknown_values(alias))
    for name, field, value in words:
        mend = (
            "Run a version that knows the value, name its extension in EXTENSIONS, or edit the queue in the admin."
        )
        yield problem(
            f"queue {name}", f"Its {field} is {value!r}, which django_mq {__version__} does not know.", mend
        )
    if not strange and not words:
        yield ok("states", "Every message is in a known state.")


def _unknown_values(alias: str) -> Iterator[tuple[str, str, str]]:
    """Yield (queue, field, value) for each value that is no choice of its field, and for unknown options."""
    fields = [field for field in Queue._meta.local_fields if field.choices]
    for queue in Queue.objects.using(alias).order_by("name"):
        for field in fields:
            value = getattr(queue, field.attname)
            if value not in dict(field.flatchoices):
                yield queue.name, field.name, str(value)
        stored = queue.other_options
        if stored is not None and stored != others_in(stored, conf.extensions().queue_options):
            yield queue.name, "other_options", str(queue.other_options)


def _up_to_limit(rows: QuerySet[Any]) -> int:
    # Remove the order: the count would read the rows in that order.
    return rows.order_by()[:COUNT_LIMIT].count()


def look_at_queues(alias: str) -> Iterator[Finding]:
    """Find paused queues, dead letters and where they go, and messages without a worker."""
    queues = overview(using=alias)
    try:
        handled = set(discover())
    except Exception:  # noqa: BLE001 - a module of the project may raise anything; W007 says so
        handled = set()
    findings: list[Finding] = []
    kinds = _kinds(alias)
    for queue in queues:
        findings += _look_at_queue(queue, kinds[queue.id], queue.name in handled)
    left = unwanted(fleet(using=alias), using=alias)
    findings += _dead_letter_exchanges(alias)
    findings += [_unwanted(queue, left[queue.name]) for queue in queues if queue.name in left and not queue.paused]
    yield from findings
    if not findings:
        yield ok("queues", f"{plural(len(queues), 'queue')}, and no problem in any of them.")


def look_at_operations(alias: str) -> Iterator[Finding]:
    """Find operations of the admin that no worker takes over."""
    late = stalled(TAKEN_OVER_SECONDS)
    ids = list(Operation.objects.using(alias).filter(late).order_by("pk").values_list("pk", flat=True))
    if ids:
        mend = (
            "Start a worker. If a worker is running, its log says why it cannot continue the operations; "
            "manage.py mq_operations --take-over says it, too. To stop them: mq_operations --stop."
        )
        numbers = ", ".join(map(str, ids))
        yield problem("operations", f"Operations of the admin make no progress: {numbers}.", mend)
    else:
        yield ok("operations", "Every running operation of the admin makes progress.")


def _look_at_queue(queue: QueueState, kinds: set[str], has_handler: bool) -> Iterator[Finding]:
    about = f"queue {queue.name}"
    if queue.paused:
        why = f" ({queue.paused_reason})" if queue.paused_reason else ""
        yield notice(about, f"Paused{why}.", f"manage.py mq_resume {queue.name}")
    if queue.dead:
        mend = f"See manage.py mq_browse {queue.name} --state dead. After the fix, run mq_redrive {queue.name}."
        yield notice(about, f"{counted(queue.dead, 'dead letter')}.", mend)
    if queue.dead_letters_of_others:
        mend = f"See manage.py mq_browse {queue.name}. After the fix, run mq_redrive {queue.name}."
        yield notice(about, f"{counted(queue.dead_letters_of_others, 'dead letter')} of other queues.", mend)
    if has_handler and TASKS in kinds:
        mend = (
            "A Celery worker runs both, mq_worker gives the tasks back. Use a queue of its own for the tasks: "
            f"manage.py mq_move {queue.name} NAME moves what is there."
        )
        yield notice(about, "It has a handler, and Celery tasks are in it.", mend)
    if queue.oldest_ready_seconds is not None and not queue.consumers and not (queue.rests and queue.ready):
        yield _unconsumed(about, queue, kinds, has_handler)


def _dead_letter_exchanges(alias: str) -> Iterator[Finding]:
    """Find dead-letter exchanges that lead to no queue; a check names cycles of dead letters."""
    options = {row.name: row.options for row in Queue.objects.using(alias).select_related(*LINKS).order_by("name")}
    find = cache(shared_store(alias).exchanges.find)
    for name, own in options.items():
        exchange = own.dead_letter_exchange
        if exchange and not options.keys() & targets_of(name, own, REJECTED, find):
            words = (
                f"No queue is bound to its dead-letter exchange {exchange!r}: its dead letters stay in it as dead."
            )
            mend = f"Bind one: manage.py mq_bindings --bind {exchange} QUEUE."
            if is_default(exchange):
                mend = "Let dead_letter_routing_key name a queue that exists."
            yield notice(f"queue {name}", words, mend)


def _kinds(alias: str) -> Mapping[int, set[str]]:
    """Say of a few waiting messages of each queue whether they are Celery tasks, other messages, or both.

    These are the first and the last ready one, and the next scheduled one: a task that mq_worker gave back is
    scheduled.
    """
    waiting = Message.objects.using(alias).filter(queue=OuterRef("pk"))
    ready, scheduled = (waiting.filter(in_state(state)) for state in (Status.READY, Status.SCHEDULED))
    looked_at = {
        "first": ready.order_by("-level", "place", "pk"),
        "last": ready.order_by("level", "-place", "-pk"),
        "next": scheduled.order_by("deliver_at"),
    }
    subqueries = {name: Subquery(rows.values("pk")[:1]) for name, rows in looked_at.items()}
    keys = {key for row in Queue.objects.using(alias).order_by().values_list(*subqueries.values()) for key in row}
    found: defaultdict[int, set[str]] = defaultdict(set)
    headers = {f"has_{header}": having(header) for header in TASK_HEADERS}
    rows = Message.objects.using(alias).filter(pk__in=keys - {None}).order_by().annotate(**headers)
    for queue, *has in rows.values_list("queue_id", *headers):
        found[queue].add(TASKS if all(has) else MESSAGES)
    return found


def look_at_releases(alias: str) -> Iterator[Finding]:
    """Find messages that were given back many times for a while, among those of each queue that are due first."""
    found = _often_released(alias)
    for queue, counts in sorted(found.items()):
        most, id_ = max(counts)
        words = (
            f"{plural(len(counts), 'message', 'was')} given back for a while more than {MANY_RELEASES} times,"
            f" without an attempt: {id_} {most} times."
        )
        mend = "Let the handler count message.releases and raise Reject, or cancel them: manage.py mq_cancel ID."
        yield notice(f"queue {queue}", words, mend)
    if not found:
        yield ok("releases", "No message that is due soon was given back again and again.")


def _often_released(alias: str) -> Mapping[str, list[tuple[int, str]]]:
    """Return the messages by queue, each with how often it was given back and its id."""
    waiting = Message.objects.using(alias).filter(in_state(Status.SCHEDULED))
    of_queue = waiting.filter(queue=OuterRef("pk")).order_by("deliver_at").values("deliver_at")
    last = Subquery(of_queue[RELEASES_READ - 1 : RELEASES_READ])
    ends = list(Queue.objects.using(alias).order_by("pk").values_list("pk", last))
    found = defaultdict(list)
    for begin in range(0, len(ends), QUEUES_AT_ONCE):
        some = ends[begin : begin + QUEUES_AT_ONCE]
        first = [Q(queue=pk) if end is None else Q(queue=pk, deliver_at__lte=end) for pk, end in some]
        rows = waiting.filter(reduce(or_, first), redelivered=True).order_by()
        texts = rows.annotate(text=Cast("properties", TextField())).values_list(
            "queue__name", "message_id", "text"
        )
        for queue, id_, text in texts:
            if (number := releases_in(headers_in(text or "{}"))) > MANY_RELEASES:
                found[queue].append((number, str(id_)))
    return found


def _unwanted(queue: QueueState, number: int) -> Finding:
    mend = (
        f"See manage.py mq_browse {queue.name} and mq_workers --json. Give a handler a selector that matches, or"
        " add one without a selector."
    )
    words = f"The selector of no consumer matches {plural(number, 'message')} at its head."
    return problem(f"queue {queue.name}", words, mend)


def _unconsumed(about: str, queue: QueueState, kinds: set[str], has_handler: bool) -> Finding:
    # Without a worker, due messages are not made ready and still count as scheduled.
    waiting = counted(queue.unserved, "message", "is") + " ready" if queue.ready else "Scheduled messages are due"
    if queue.paused:
        return notice(about, f"{waiting}, but the queue is paused.", f"manage.py mq_resume {queue.name}")
    if queue.takes_dead_letters and not has_handler:
        # Published here by mistake, perhaps as the copy of a dead letter.
        mend = f"If they belong elsewhere, manage.py mq_redrive {queue.name} --to QUEUE moves all that is there."
        return problem(about, f"{waiting}, no dead letters, and no live worker takes from it.", mend)
    if MESSAGES in kinds and not has_handler:
        mend = (
            f'Write a handler: @consumer("{queue.name}") in the consumers.py of an app. Celery workers do not run '
            f"these messages without one. Or remove them: manage.py mq_purge {queue.name}."
        )
        return problem(about, f"{waiting} and this project has no handler of the queue.", mend)
    by_worker = f"manage.py mq_worker --queues {queue.name}"
    by_celery = f"celery -A PROJECT worker -Q {queue.name}"
    if kinds == {TASKS}:
        mend = f"Start one: {by_celery}."
    elif has_handler:
        mend = f"Start one: {by_worker}, or a Celery worker, which runs all handlers."
    else:
        mend = f"Start one: {by_worker}, or {by_celery}."
    return problem(about, f"{waiting} and no live worker takes from it.", mend)


def look_at_options(alias: str) -> Iterator[Finding]:
    """Find options of queues that differ from the settings."""
    found = differences(using=alias)
    for each in found:
        mend = f"To overwrite it: manage.py mq_queue sync {each.queue} --force."
        yield notice(f"queue {each.queue}", f"{each}.", mend)
    if not found:
        yield ok("options", "All declared queues have the options of the settings.")


LOOKS = (
    look_at_leases,
    look_at_loops,
    look_at_locks,
    look_at_orphans,
    look_at_states,
    look_at_queues,
    look_at_options,
    look_at_releases,
    look_at_operations,
)
