"""The message that a durable handler gets."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from django_mq.delivery.codecs import ReceivedMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import ParamSpec, Self

    from django_mq.durable.run import DurableRun

    P = ParamSpec("P")

R = TypeVar("R")


class DurableMessage(ReceivedMessage):
    """One delivery of a message to a durable handler.

    The handler runs again from its beginning after each sleep and wait, after a failure, and after the death of
    its worker. What it has done by ``step`` is not done again: the result is remembered. All other code runs each
    time, so it has no effects, and takes the same way for the same results.

    All methods raise StepMisused inside of a step, in a transaction of the handler, and after the attempt has
    ended; StepMismatch, which makes the message a dead letter, if something else is recorded at this place; and
    LeaseLost if another worker has the message.
    """

    _run: DurableRun

    @classmethod
    def over(cls, message: ReceivedMessage, run: DurableRun) -> Self:
        """Return the message with what a durable handler has."""
        copy = message.share(cls(message._claimed))  # noqa: SLF001 - as ReceivedMessage.changed
        copy._run = run  # noqa: SLF001 - as above
        return copy

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function once for this message, and return its result, as JSON has it, now and later.

        What the function raises is not recorded: the attempt fails, and its next one calls the function again.
        Raises UnusableResult, which makes the message a dead letter, for a result that is no JSON or too large.
        """
        return self._run.step(name, function, args, kwargs)  # type: ignore[no-any-return]

    def sleep(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Go on after this time: the attempt ends here, uncounted, and the message is parked meanwhile."""
        self._run.sleep(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))

    def wait_for(self, event: str, key: str = "", *, timeout_seconds: float | None = None) -> Any:
        """Return the payload of an event, at once if it was emitted before: see ``emit``.

        Otherwise the attempt ends here, uncounted, and the message is parked until then. Raises EventTimedOut
        after ``timeout_seconds``, now and later; without it, the wait has no end.
        """
        return self._run.wait_for(event, key, timeout_seconds)

    def patched(self, name: str) -> bool:
        """Return whether this message takes the new way of code that was changed.

        It does unless it had passed this place before. The answer is remembered.
        """
        return self._run.patched(name)

    @property
    def step_key(self) -> str:
        """Names the step that runs, the same in each of its attempts: give it to services as idempotency key."""
        return self._run.key

    # The same for a coroutine function.

    async def astep(
        self, name: str, function: Callable[P, Awaitable[R] | R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Await ``step``: the function is a coroutine function, or runs in a thread."""
        return await self._run.astep(name, function, args, kwargs)  # type: ignore[no-any-return]

    async def asleep(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Await ``sleep``."""
        await self._run.asleep(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))

    async def await_for(self, event: str, key: str = "", *, timeout_seconds: float | None = None) -> Any:
        """Await ``wait_for``."""
        return await self._run.await_for(event, key, timeout_seconds)

    async def apatched(self, name: str) -> bool:
        """Await ``patched``."""
        return await self._run.apatched(name)
