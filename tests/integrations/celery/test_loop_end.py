"""What ends the heartbeat of a Celery worker: an error that ends its loop, and not what Celery recovers from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery.exceptions import WorkerShutdown

from django_mq.engine.decisions.session import LoopState
from django_mq.errors import StoreUnavailable
from django_mq.integrations.celery.step import loop_of
from django_mq.integrations.celery.transport import Transport


def a_consumer(error: BaseException | None) -> Any:
    """A consumer of Celery whose loop ends so."""

    def asynloop(*_: Any) -> str:
        if error is not None:
            raise error
        return "ended"

    return SimpleNamespace(
        loop=asynloop, connection_errors=Transport.connection_errors, channel_errors=Transport.channel_errors
    )


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ValueError("pickle data was truncated"), LoopState.ENDED),
        (StoreUnavailable("restarted"), LoopState.TURNS),
        (WorkerShutdown(0), LoopState.TURNS),
        (None, LoopState.TURNS),
    ],
    ids=repr,
)
def test_an_error_that_celery_does_not_recover_from_ends_the_heartbeat(
    error: BaseException | None, state: LoopState
) -> None:
    consumer = a_consumer(error)
    loop = loop_of(consumer)
    loop.turn()

    if error is None:
        assert consumer.loop() == "ended"
    else:
        with pytest.raises(type(error)):
            consumer.loop()

    assert loop.state is state


def test_all_connections_of_a_worker_have_one_loop() -> None:
    consumer = a_consumer(None)

    assert loop_of(consumer) is loop_of(consumer)
