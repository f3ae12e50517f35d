"""The middleware around an attempt, around the bodies of Celery tasks, in the process that runs them.

Handlers have it from their own attempt, also in a Celery worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celery.exceptions import Ignore, Reject, Retry

from django_mq import conf
from django_mq.delivery.codecs import encode_json
from django_mq.errors import BodyNotSerialisable, RateLimited, Skip
from django_mq.seams.middleware import Execution, surrounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The task that runs handlers, whose attempts have the middleware already.
DELIVER = "django_mq.deliver"
#: The attribute of the request of a run that has the middleware around it.
SURROUNDED = "_django_mq_surrounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage:
    """The message of a Celery task, with the names that a handler's message has."""

    #: The id of the task.
    id: str
    queue: str
    #: The name of the task.
    type: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    #: What Celery's request has: the headers, and what Celery adds.
    headers: Mapping[str, Any]
    #: 1 for the first run, one more for each retry.
    attempt: int
    redelivered: bool
    content_type = "application/json"

    @property
    def raw_body(self) -> bytes:
        """The arguments as Celery writes them; blank where JSON has none of them."""
        try:
            return encode_json([list(self.args), dict(self.kwargs), {}], "arguments").encode()
        except BodyNotSerialisable:
            return b""


def call(body: Callable[..., Any], task: Any, given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call the body of a task, which may be a method of its class, with the middleware around it.

    The middleware is around runs for a message only, not around calls of the task by other code.
    """
    if not _is_attempt(task):
        return body(*given, **kwargs)
    setattr(task.request, SURROUNDED, True)
    own = given[:1] if given and given[0] is task else ()
    attempt = Execution(message=message_of(task, given[len(own) :], kwargs), handler=task, outcome=outcome)
    try:
        return surrounded(
            conf.middleware().attempts,
            attempt,
            lambda changed: body(*own, *changed.message.args, **changed.message.kwargs),
        )
    except Skip as skip:
        raise Ignore(*skip.args) from skip


def _is_attempt(task: Any) -> bool:
    """Whether the task runs for a message. The body may call itself."""
    request = task.request
    return not (request.called_directly or request.is_eager or hasattr(request, SURROUNDED))


def message_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskMessage:
    """Return the message of the run of a task."""
    request = task.request
    info = request.delivery_info or {}
    return TaskMessage(
        id=request.id,
        queue=str(info.get("routing_key") or ""),
        type=task.name,
        args=args,
        kwargs=kwargs,
        headers={name: value for name, value in vars(request).items() if name not in {"args", "kwargs"}},
        attempt=(request.retries or 0) + 1,
        redelivered=bool(info.get("redelivered")),
    )


def outcome(error: BaseException | None) -> str:
    """Name what becomes of a task's message; if the task has failed, that depends on Celery's settings."""
    if error is None or isinstance(error, Ignore | Skip):
        return "accepted"
    if isinstance(error, RateLimited):
        return "released"
    if isinstance(error, Reject):
        return "released" if getattr(error, "requeue", False) else "dead"
    return "retried" if isinstance(error, Retry) else "failed"
