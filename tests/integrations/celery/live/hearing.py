"""Events, received while a connection listens."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def publish_until(
    heard: Callable[[], bool], *, connection: Any, publish: Callable[[], object], story: Callable[[], str]
) -> None:
    """Publish, and drain the connection's events for a moment, again and again until what is wanted was heard.

    An event is lost if its queue is not bound: bind the connection's queue before you call this.
    """

    def came() -> bool:
        publish()
        with suppress(TimeoutError):
            while not heard():
                connection.drain_events(timeout=1.0)
        return heard()

    wait_until(came, story)
