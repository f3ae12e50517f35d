"""How runs of tasks end: told where that is asked for, also of tasks that are acknowledged when they begin.

Of the latter, this process remembers how long runs take: their rows end when they begin.

The parent process of a worker tells it, because it alone knows of a child that was killed, of a time limit and of
a revocation. Celery calls methods of the request there. Of a request whose end is asked for, these methods are
wrapped when the task is received. A worker that is killed tells nothing: its session tells for it.
"""

from __future__ import annotations

from collections import deque
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from billiard.exceptions import Terminated
from celery import signals
from celery.exceptions import Ignore, Retry

from django_mq import conf
from django_mq.engine.decisions.ends import End, RunOutcome
from django_mq.engine.decisions.unusual import usual_of
from django_mq.engine.decisions.verdict import Verdict
from django_mq.integrations.celery.message import ClaimedMessage
from django_mq.seams.ends import concerns
from django_mq.stores.claim_limits import holds_runs
from django_mq.stores.records import BegunRun, Settlement

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_mq.stores.records import Claimed

#: So many of the newest runs of a task say what is usual.
NEWEST: Final = 100
#: How long the newest successful runs took, in seconds, by the name of the task.
_durations: dict[str, deque[float]] = {}
#: The attribute of a method that notes how long runs take.
TIMED: Final = "_django_mq_timed"


def connect() -> None:
    """Follow the runs of the tasks that this process receives."""
    signals.task_received.connect(follow, dispatch_uid="django_mq.runs")


def follow(request: Any, **_: Any) -> None:
    """Tell how the run of a request ends, if a limit counts it or an extension is told. Note how long it takes."""
    message = getattr(request, "message", None)
    if type(message) is ClaimedMessage and message.claimed is not None:
        _time(type(request))
        if is_asked_for(message):
            FollowedRun(request, message)


def _time(made: Any) -> None:
    """Have requests of a class, which Celery makes for each task, note how long their runs take."""
    succeed = made.on_success
    if hasattr(succeed, TIMED):
        return

    @wraps(succeed)
    def on_success(request: Any, result: Any, *args: Any, **options: Any) -> Any:
        failed, _, seconds = result
        if not failed and not request.task.acks_late:
            _durations.setdefault(request.name, deque(maxlen=NEWEST)).append(seconds)
        return succeed(request, result, *args, **options)

    setattr(on_success, TIMED, True)
    made.on_success = on_success


def begun(request: Any, claimed: Claimed) -> BegunRun:
    """Return what is known of a run whose message is gone."""
    usual = usual_of(tuple(_durations.get(request.name, ())))
    return BegunRun(str(claimed.message_id), claimed.queue_name, usual)


def is_asked_for(message: ClaimedMessage) -> bool:
    """Whether the end of the run of a message has to be known."""
    claimed, extensions = message.claimed, conf.extensions()
    is_told = claimed.told_to is not None and concerns(claimed.told_to, End.ACCEPTED, extensions.ends)
    return is_told or (bool(extensions.limits) and holds_runs(claimed.queue_name))


class FollowedRun:
    """One run of a task. Its message is acknowledged as begun, if Celery acknowledges it before the run ends."""

    def __init__(self, request: Any, message: ClaimedMessage) -> None:
        self._message = message
        self._has_begun = self._has_ended = False
        self._late = bool(request.task.acks_late)
        self._accepted, self._succeeded = request.on_accepted, request.on_success
        self._failed, self._timed_out = request.on_failure, request.on_timeout
        # Methods, because the pool finds the request and its message by the callback.
        request.on_accepted = MethodType(self._wrapped(self._accept), request)
        request.on_success = MethodType(self._wrapped(self._succeed), request)
        request.on_failure = MethodType(self._wrapped(self._fail), request)
        request.on_timeout = MethodType(self._wrapped(self._time_out), request)

    @staticmethod
    def _wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda _, *args, **options: call(*args, **options)

    def _accept(self, *args: Any) -> None:
        self._message.begins = self._has_begun = not self._late
        self._accepted(*args)

    def _succeed(self, *args: Any, **options: Any) -> Any:
        self._message.outcome = RunOutcome.SUCCEEDED
        try:
            return self._succeeded(*args, **options)
        finally:
            self._end(self._message.outcome)

    def _fail(self, exc_info: Any, *args: Any, **options: Any) -> Any:
        self._message.outcome = outcome_of(exc_info.exception)
        try:
            return self._failed(exc_info, *args, **options)
        finally:
            self._end(self._message.outcome)

    def _time_out(self, soft: Any, timeout: Any) -> None:
        if not soft:
            self._message.outcome = RunOutcome.FAILED
        self._timed_out(soft, timeout)
        if not soft:
            self._end(RunOutcome.FAILED)

    def _end(self, outcome: RunOutcome | None) -> None:
        if self._has_begun and not self._has_ended:
            self._has_ended = True
            claimed = self._message.claimed
            ended = Settlement(claimed.id, claimed.claim, Verdict.END, told_to=claimed.told_to, outcome=outcome)
            self._message.session.settle(ended)


def outcome_of(error: BaseException) -> RunOutcome:
    """Return how a run ended that Celery calls failed."""
    error = getattr(error, "exc", error) if type(error).__name__ == "ExceptionWithTraceback" else error
    if isinstance(error, Retry):
        return RunOutcome.RETRIED
    if isinstance(error, Terminated):
        return RunOutcome.REVOKED
    return RunOutcome.SUCCEEDED if isinstance(error, Ignore) else RunOutcome.FAILED
