"""The progress of messages: what handlers report, and what programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django_mq import conf
from django_mq.delivery import validation
from django_mq.delivery.publisher import run_apart
from django_mq.engine.options import is_storable
from django_mq.errors import AttemptEnded, InvalidMessage, InvalidProgress, shown
from django_mq.replies.reported import ReportedProgress
from django_mq.replies.reporter import REPORTER
from django_mq.stores.clock import clock
from django_mq.stores.connections import in_test
from django_mq.stores.registry import MEMORY

if TYPE_CHECKING:
    from uuid import UUID

    from django_mq.delivery.codecs import ReceivedMessage

#: The most characters of a text.
TEXT_LENGTH: Final = 200


def report(message: ReceivedMessage, fraction: float, text: str) -> None:
    """Take what a handler reports: see ``ReceivedMessage.progress``. Raises InvalidProgress and AttemptEnded."""
    if problem := problem_of(fraction, text):
        raise InvalidProgress(problem)
    if message.end_request.has_ended:
        raise AttemptEnded(
            f"The handler of message {message.id} has returned, failed or was given up, so it has no progress any"
            " more. Report progress before, and end the threads and tasks that the handler starts."
        )
    if message.using is None:
        return  # a message that a test has made
    found = ReportedProgress(
        message_id=message.id,
        queue=message.queue,
        fraction=float(fraction),
        text=text,
        attempt=message.attempt,
        reported_at=clock.now(),
    )
    # The transaction of a test is seen by no other connection, and memory by no other process.
    if message.using == MEMORY or in_test.get():
        REPORTER.keep(message.using, found)
    else:
        REPORTER.take(message.using, found)


def problem_of(fraction: object, text: object) -> str | None:
    """Return what is wrong with a report, as a sentence; None if nothing is."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        return f"The progress is {shown(fraction)}; give a part of 1, such as 0.4 for 40 %."
    if not isinstance(text, str) or not is_storable(text, TEXT_LENGTH):
        return (
            f"The text of the progress is {shown(text)}; give a text of at most {TEXT_LENGTH} characters that a"
            " database can store."
        )
    return None


def progress_of(message_id: UUID | str, *, using: str | None = None) -> ReportedProgress | None:
    """Return what the handler of a message has last reported by ``message.progress``; None if nothing is known.

    It stays when an attempt fails, until the next one reports something, and for a day after the message has
    ended. Raises InvalidMessage for what is no id.
    """
    id_ = validation.message_id(message_id)
    if id_ is None:
        raise InvalidMessage("message_id is missing; give the id that publish() has returned.")
    alias = using or conf.load().DATABASE
    if (kept := REPORTER.kept(alias, id_)) is not None or alias == MEMORY:
        return kept
    from django_mq.replies.models import MessageProgress  # noqa: PLC0415 - models; an app may not be installed

    return of_row(MessageProgress.objects.using(alias).filter(pk=id_).first())


def of_row(row: Any) -> ReportedProgress | None:
    """Return what a row says."""
    if row is None:
        return None
    return ReportedProgress(
        message_id=row.message_id,
        queue=row.queue_name,
        fraction=row.fraction,
        text=row.text,
        attempt=row.attempt,
        reported_at=row.reported_at,
    )


async def aprogress_of(message_id: UUID | str, *, using: str | None = None) -> ReportedProgress | None:
    """Do what ``progress_of`` does, from async code."""
    return await run_apart(lambda: progress_of(message_id, using=using))
