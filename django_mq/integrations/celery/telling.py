"""What Celery, and with it Sentry, OpenTelemetry and Flower, are told of a handler's run.

A handler that failed is a task that failed, each time: with ``task_failure``, ``task-failed`` and
the handler's own exception. One that chose its outcome (``Release``, ``Reject``, a ``Retry`` that was
granted) did what it wanted, and nobody is alarmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from billiard import common
from celery.exceptions import Ignore, TaskPredicate, Terminated, TimeLimitExceeded, WorkerLostError

from django_mq.delivery.codecs import decode_headers
from django_mq.engine.verdict import Verdict
from django_mq.errors import CorruptMessage, Reject, Release, Retry

if TYPE_CHECKING:
    from django_mq.stores.records import Settlement

#: Headers by which a trace goes on in another process: W3C's, and Sentry's own. Only these become
#: headers of a task: with others a message could give Celery orders.
TRACES = frozenset({"traceparent", "tracestate", "baggage", "sentry-trace"})
#: How a handler chooses an outcome; and what Celery's parent takes for news of the child, or for an order.
UNTOLD = (Release, Reject, TaskPredicate, MemoryError, Terminated, TimeLimitExceeded, WorkerLostError)


def for_celery(error: BaseException | None, settlement: Settlement) -> BaseException:
    """Return what to raise for an attempt that is settled and was not accepted."""
    granted = isinstance(error, Retry) and settlement.verdict is Verdict.RELEASE
    if granted or isinstance(error, UNTOLD) or not isinstance(error, Exception):
        return Ignore()
    return error


def is_ended_by_parent() -> bool:
    """Whether the pool has told this child to end, and so broken off what it was doing."""
    return bool(getattr(common, "_should_have_exited")[0])  # noqa: B009 - the public name is younger than some we accept


def traces_in(headers: str | None) -> dict[str, str]:
    """Return the trace's headers of a stored message; none of one that has no trace, or is corrupt."""
    if not headers or not ("traceparent" in headers or "sentry-trace" in headers):
        return {}  # most have none, and need not be decoded in the worker's loop
    try:
        decoded = decode_headers(headers)
    except CorruptMessage:
        return {}
    found = {name.lower(): value for name, value in decoded.items() if isinstance(value, str)}
    return {name: value for name, value in found.items() if name in TRACES}
