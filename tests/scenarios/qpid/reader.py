"""A consumer of a scenario: it reads one queue or several, on one credit."""

from typing import TYPE_CHECKING, Any

from django_mq.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_mq.engine.decisions.credit import Credit
    from django_mq.inprocess.consumers.consumer import Consumer
    from django_mq.inprocess.entries.entry import Entry
    from django_mq.inprocess.queue import Queue
    from tests.scenarios.environment import Environment


class Reader:
    """A target, what it was sent, and the words for it."""

    def __init__(
        self, name: str, credit: "Credit", woken: "Callable[[str], None]", environment: "Environment"
    ) -> None:
        self.name = name
        self.credit = credit
        self._target = environment.target(credit, name=name, wake=lambda _: woken(name))
        #: What it was sent, the latest delivery of each message.
        self._sent: dict[str, tuple[Queue, Consumer, Entry]] = {}

    def subscribe(self, queues: "Sequence[Queue]", **options: Any) -> None:
        """Read these queues; none of them, and the error, if one refuses."""
        for queue in queues:
            try:
                self._target.subscribe(queue, name=self.name, **options)
            except MQError:
                self._target.close()
                raise

    def pause(self) -> None:
        """Want no work."""
        self._target.pause()

    def resume(self) -> None:
        """Want work again."""
        self._target.resume()

    def credit_changed(self) -> None:
        """To be called after the credit was."""
        self._target.credit_changed()

    def pull(self, now: float) -> str | None:
        """The id of the message it is sent; None if there is none for it."""
        found = self._target.pull(now)
        if found is None:
            return None
        consumer, entry = found
        queue = consumer.queue
        if queue is not None:
            self._sent[entry.message.id] = (queue, consumer, entry)
        return entry.message.id

    def sent(self, message: str) -> "tuple[Queue, Consumer, Entry] | None":
        """Where a message came from, and its entry; None if it was never sent."""
        return self._sent.get(message)

    def close(self, *, give_back: bool) -> None:
        """Read nothing any more; keep what it holds, or release it."""
        if give_back:
            self._target.close()
            return
        self._target.pause()
        for consumer in self._target.consumers:
            if consumer.queue is not None:
                consumer.queue.remove_consumer(consumer, give_back=False)
