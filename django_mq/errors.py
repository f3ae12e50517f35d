"""Every error this project raises, one sentence each.

A class's docstring is its default message, so prose and error cannot drift apart.
Errors that a handler raises to choose an outcome stand under ``Outcome``: they are
not failures of the queue.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from numbers import Number
from typing import Any

#: Characters that an error shows of a text.
LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """Return a value as text for an error: a long text is cut, and Python refuses to convert some numbers."""
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}...")
    try:
        return repr(value)
    except ValueError:
        return "a number of thousands of digits"


class MQError(Exception):
    """Something went wrong in django_mq."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigurationError(MQError):
    """The settings of django_mq are wrong; run ``manage.py check`` for the details."""


class ContradictoryOptions(ConfigurationError):
    """Options of a queue make no sense together."""


class BridgeMisused(ConfigurationError):
    """A queue cannot have its bridge together with what else it has, or a worker cannot consume it."""


class UnusableExtension(ConfigurationError):
    """A value of DJANGO_MQ["EXTENSIONS"] cannot be used."""


class UnusableMiddleware(ConfigurationError):
    """A value of DJANGO_MQ["MIDDLEWARE"] cannot be used."""


class WrongSchedule(ConfigurationError, ValueError):
    """A periodic message has a cron line, an interval or a time zone with which it cannot be due."""


class WrongWorkflow(ConfigurationError, ValueError):
    """A workflow, or a step of it, is declared in a way that cannot be."""


class TargetGone(MQError):
    """What a periodic message publishes does not exist, or not here."""


class BrokerURLError(ConfigurationError):
    """The broker URL is not of the form django-mq:///ALIAS?option=value."""


# Publishing: raised before anything is written.


class PublishError(MQError):
    """The message was not published."""


class InvalidMessage(PublishError, ValueError):
    """A property of the message is out of range or of the wrong type."""


class BodyNotSerialisable(InvalidMessage):
    """The body can be written neither as JSON nor as bytes."""


class ResultElsewhere(InvalidMessage):
    """A result is asked for of a message that a bridge takes to another broker: it does not come back."""


class BodyTooLarge(InvalidMessage):
    """The body is larger than DJANGO_MQ["MAX_BODY_BYTES"] allows."""


class UnknownQueue(PublishError, LookupError):
    """No queue of that name is declared; declare it in DJANGO_MQ["QUEUES"], in the admin or by mq_queue create."""

    def __init__(self, message: str | None = None, *, queue: str = "") -> None:
        super().__init__(message)
        #: The name that no queue has.
        self.queue = queue


class QueueClosed(PublishError):
    """The queue is closed and takes no more messages."""


class QueueFull(PublishError):
    """The queue has reached its limits."""

    def __init__(self, message: str | None = None, *, queue: str = "") -> None:
        super().__init__(message)
        #: The name of the durable queue.
        self.queue = queue


class ProducerBlocked(PublishError):
    """The producer has filled a queue and must wait until it has been emptied a little."""


class DuplicateMessage(PublishError):
    """A live message with this id is already in the queue, or its duplicate id or unique key is taken."""


class BatchClosed(PublishError):
    """The batch takes no more members: it is closed, cancelled, or has ended."""


class UniqueKeyHeld(PublishError):
    """An open transaction has published a message with the same unique key, and has not ended in time."""


class PublishingStopped(PublishError):
    """Publishing line by line stopped at a line that cannot be published."""

    def __init__(self, published: int, where: str, why: MQError) -> None:
        super().__init__(f"{where}: {why} Published before it: {published:,}.")
        #: How many messages are published, all of the lines before.
        self.published = published


class WorkflowRuns(PublishError):
    """A workflow of this name and key runs already."""

    def __init__(self, message: str | None = None, *, workflow_id: Any = None) -> None:
        super().__init__(message)
        #: The id of the one that runs; None if it has ended meanwhile.
        self.workflow_id = workflow_id


class UnknownWorkflow(MQError, LookupError):
    """There is no workflow of this id, or no code declares one of this name."""


class WorkflowRefused(MQError):
    """The workflow is in no state in which it can be retried or cancelled."""


class QueueInUse(MQError):
    """The queue still holds claimed messages, or another queue names it; use force to delete it all the same."""


# Engine: broken rules of the queue model.


class IllegalMove(MQError):
    """An entry, or a session, cannot move between these two states."""


class OutOfRange(MQError, ValueError):
    """A number given to the engine or the in-process broker lies outside its range."""


class UncountedUnit(MQError, ValueError):
    """This credit mode does not count in that unit; leave it out, or choose another mode."""


class QueueDeleted(PublishError):
    """The queue has been deleted."""


class UnknownConsumer(MQError):
    """The consumer is not subscribed to this queue."""


class UnknownStatement(MQError, LookupError):
    """The store in use has no SQL statement of this name."""


class UnknownListKind(MQError, LookupError):
    """No list of this kind is known; register it first."""


class ListKindTaken(MQError, ValueError):
    """A list of this kind is registered already; choose another name."""


class ListKeyMissing(MQError, ValueError):
    """This kind of list needs a key: the name of a header."""


class SubscriptionRefused(MQError):
    """The queue does not take this consumer now."""


class ExclusiveConsumerExists(SubscriptionRefused):
    """Another consumer has the queue for itself; wait until it leaves."""


class ConsumersExist(SubscriptionRefused):
    """The queue has consumers already; wait until they leave, or do not ask for it exclusively."""


class AccessRefused(SubscriptionRefused):
    """The queue belongs to another client."""


class TooManyConsumers(SubscriptionRefused):
    """The queue has as many consumers as it may have; wait until one leaves, or raise its max_consumers."""


class AlreadySubscribed(SubscriptionRefused):
    """The target reads this queue already; unsubscribe from it first."""


class MalformedSelector(MQError, ValueError):
    """The selector cannot be read; its text is wrong at ``position``."""

    def __init__(self, message: str | None = None, *, position: int = 0) -> None:
        super().__init__(message)
        #: Where in the text, counted from 0.
        self.position = position


# Stores and notifications: foreign errors, translated once at the boundary.


class StoreError(MQError):
    """The database refused the operation."""


class StoreUnavailable(StoreError):
    """The database cannot be reached; the operation may be tried again."""


class TransactionLost(StoreUnavailable):
    """The database has undone the whole transaction, as after a deadlock; all of it may be tried again."""


class LockHeld(StoreUnavailable):
    """Another transaction holds a lock that the operation needs; try again when that transaction has ended."""


class TablesMissing(StoreError):
    """The tables of django_mq are missing; run ``manage.py migrate``."""


class UnsupportedDatabase(StoreError):
    """There is no store for this database; use PostgreSQL, MariaDB or SQLite (MySQL is untested)."""


class DriverMissing(UnsupportedDatabase):
    """The driver that the store for this database needs cannot be imported; on PostgreSQL it is psycopg 3."""


class UnsupportedRule(StoreError):
    """This store does not support the rule; leave it out, or use queues in memory."""


class SessionLost(StoreError):
    """The worker session was reaped: its deadline passed and its messages were given back."""


# Consuming.


class UnknownBatch(MQError, LookupError):
    """There is no batch with this id: it was rolled back, or is too old."""


class BatchMisused(MQError):
    """A batch was begun twice, or asked for where there is none."""


class BridgeAway(MQError):
    """The broker of a bridge cannot be reached, or takes nothing. The text has no credentials.

    ``by_message``: it has closed the connection because of a message that was on the way.
    """

    def __init__(self, words: str, *, by_message: bool = False) -> None:
        super().__init__(words)
        self.by_message = by_message


class UnfitForBridge(MQError):
    """The protocol of the other broker cannot express a message."""


class LeaseLost(MQError):
    """The message was given to another worker meanwhile; nothing that the handler wrote was kept."""

    def __init__(self, rows: frozenset[int] = frozenset()) -> None:
        super().__init__()
        #: The ids of the rows that another worker has.
        self.rows = rows


class CorruptMessage(MQError):
    """A stored message cannot be decoded."""


class LostKey(CorruptMessage):
    """The body is encrypted with a key that DJANGO_MQ["ENCRYPTION_KEYS"] does not have."""

    def __init__(self, key_id: str = "") -> None:
        super().__init__(
            f"The body is encrypted with the key {key_id!r}, which this process does not have. Name the key in"
            " DJANGO_MQ['ENCRYPTION_KEYS'] and EncryptionMiddleware in MIDDLEWARE, and redrive the message."
        )
        #: The id of the key.
        self.key_id = key_id

    def __reduce__(self) -> tuple[type[LostKey], tuple[str]]:
        return type(self), (self.key_id,)


class MiddlewareMisused(MQError):
    """A middleware called ``proceed`` twice, or neither called it nor raised an exception."""


class UnfitBody(CorruptMessage):
    """The body does not fit the annotation of the handler's parameter."""


class NoHandler(MQError):
    """No handler is registered for the queue."""


class HandlerNotRun(MQError):
    """The handler returned an awaitable or a generator, so its work did not run."""


class WrongOutcomes(MQError):
    """A handler of many returned neither None nor an outcome for each of its messages."""


class HandlerTimeout(MQError):
    """The handler ran longer than its time limit."""


class SoftTimeLimitExceeded(HandlerTimeout):
    """The handler ran longer than its soft time limit."""


class WorkerInTransaction(MQError):
    """A worker sees no row of its caller's transaction; in a test, drain the queues with django_mq.testing."""


class DrainNeverEnds(MQError):
    """A drain of a test has run as many attempts as it may, and more messages are ready."""


class HandlersHang(MQError):
    """Too many handlers still run after they were given up; restart the worker."""


class WorkerLost(MQError):
    """The process that ran the handler died."""


class UnknownTask(MQError, LookupError):
    """A message names a task that this process does not have."""


class ResultNotSerialisable(MQError, TypeError):
    """The handler or the task has run, but JSON cannot express its return value."""


class ResultTooLarge(MQError, ValueError):
    """The handler has run, but what it returned is larger than MAX_RESULT_BYTES."""


class UnknownResult(MQError, LookupError):
    """The message is in no queue, and no result of it is kept."""


class ResultFailed(MQError):
    """The message has ended, but its handler has not returned: it is dead, has expired, or was removed."""

    def __init__(self, message_id: Any, status: str, reason: str = "") -> None:
        because = f": {reason}" if reason else ""
        super().__init__(f"Message {message_id} has no result, it is {status}{because}")
        self.message_id, self.status, self.reason = message_id, status, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message_id, self.status, self.reason)


class ResultTimeout(MQError, TimeoutError):
    """The message has not ended in time."""


class InvalidProgress(MQError, ValueError):
    """The progress that a handler reports is no number of 0 to 1, or its text cannot be stored."""


class AttemptEnded(MQError):
    """The attempt of the message has ended, so it has no progress any more."""


class WaitInTransaction(MQError):
    """A transaction is open, in which waiting for a result would be in vain."""


class MessageRemoved(MQError):
    """The message was not handled to the end: it was cancelled, purged or replaced, has expired, or is dead."""


# Durable handlers.


class NotDurable(MQError, AttributeError):
    """Only a message of a handler with ``durable=True`` has steps, sleeps and events."""


class StepMisused(MQError):
    """A durable handler asks for something where it cannot have it, such as a step in another step."""


class NotAsleep(MQError):
    """The handler of the message does not sleep, so it cannot be woken."""


class UnusableEvent(MQError, ValueError):
    """The name, the key or the payload of an event cannot be stored."""


# The data pipeline.


class PipelineError(MQError):
    """A job of the data pipeline cannot do what it was asked to."""


class SparkUnavailable(PipelineError):
    """Spark cannot be started here: PySpark or Java is missing."""


class ArchiveBusy(PipelineError):
    """Another archive is running; wait until it is done, or until its lease has run out."""


class ArchiveDamaged(PipelineError):
    """The archive does not hold what its manifest says; nothing was deleted."""


class WrongColumns(PipelineError):
    """The DataFrame does not have the columns that messages are made of."""


# Outcomes: a handler raises one of these to settle its message.


class ChosenOutcome(Exception):
    """The handler chose how its message is settled."""


class Reject(ChosenOutcome):
    """Dead-letter the message now, without further attempts."""


class StepMismatch(Reject):
    """The code of a durable handler asks for another step than the one that is recorded at this place."""


class UnusableResult(Reject):
    """A step has run, but its result cannot be recorded: it is no JSON, or too large."""


class EventTimedOut(Reject):
    """The event has not come in time."""


class Skip(ChosenOutcome):
    """Accept the message now, without what follows: a middleware raises it for a message that needs no handler."""


class Release(ChosenOutcome):
    """Give the message back to its place, uncounted: at once, or after a delay.

    ``Release(60)`` is ``Release(delay_seconds=60)``: nothing but a delay is given as a number.
    """

    def __init__(
        self, reason: timedelta | float | str = "", *, delay_seconds: timedelta | float | None = None
    ) -> None:
        reasons, self.delay_seconds = _told_apart(type(self).__name__, reason, delay_seconds)
        super().__init__(*reasons)


class RateLimited(Release):
    """Give the message back, uncounted, because a service limits it: for so long nothing of its key begins.

    The throttles of the queue say what the key is; see ``django_mq.limits``. Without one, the message alone waits.
    """

    #: What is written with the verdict, which the throttles add.
    first: object = None

    def __init__(self, reason: str = "", *, retry_after_seconds: float) -> None:
        super().__init__(reason, delay_seconds=retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds

    def __reduce__(self) -> tuple[Any, ...]:
        # A process of Celery's pool sends it to its parent.
        return partial(type(self), retry_after_seconds=self.retry_after_seconds), self.args


class WorkerStopping(Release):
    """The worker ends: give the message back to its place, uncounted."""


class Suspended(BaseException):
    """The attempt ends here, and its message is parked: a durable handler lets this pass.

    It is no Exception, as little as asyncio's CancelledError is one: a handler that catches errors goes on.
    """


class Cancelled(ChosenOutcome):
    """Remove the message: it was cancelled while its handler ran, or the handler finds that it is obsolete."""


class Decline(ChosenOutcome):
    """Give the message back for the other consumers of its queue, uncounted; this one is not given it again."""


class Retry(ChosenOutcome):
    """Count this attempt as failed and deliver the message again later.

    ``Retry(60)`` is ``Retry(delay_seconds=60)``: nothing but a delay is given as a number.
    """

    def __init__(
        self, reason: timedelta | float | str = "", *, delay_seconds: timedelta | float | None = None
    ) -> None:
        reasons, self.delay_seconds = _told_apart(type(self).__name__, reason, delay_seconds)
        super().__init__(*reasons)


def _told_apart(
    name: str, reason: timedelta | float | str, delay_seconds: timedelta | float | None
) -> tuple[tuple[object, ...], timedelta | float | None]:
    """Return the reason of an outcome, if there is one, and its delay, which may be given in its place."""
    if not isinstance(reason, timedelta | Number):
        return (reason,) if reason else (), delay_seconds
    if delay_seconds is not None:
        raise TypeError(f"{name} was given two delays, {reason!r} and {delay_seconds!r}; give one.")
    return (), reason
