"""The programs on the other side of bridges: one that takes what crosses, and one that sends what is received.

Each goes on with another node when its connection breaks.
"""

from __future__ import annotations

import threading
from itertools import cycle
from typing import TYPE_CHECKING, Any
from uuid import UUID

from amqp import Message as Sent
from kombu import Connection

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Messages of so many groups go through each other.
GROUPS = 50
QUORUM = {"x-queue-type": "quorum"}
CONNECT_SECONDS, HEARTBEAT_SECONDS, ANSWER_SECONDS = 3, 10, 10
TOGETHER, PREFETCHED = 100, 500


class Numbers:
    """What has come of the numbers from 0: each once by its id, and those of a group in order."""

    def __init__(self) -> None:
        self.ids: dict[int, str] = {}
        self.duplicates = 0
        #: The numbers that have come after a larger one of their group.
        self.late: list[int] = []
        self._largest = [-1] * GROUPS

    def take(self, number: int, id_: str) -> None:
        """Note that a message has come."""
        if number in self.ids:
            self.duplicates += 1
            return
        self.ids[number] = id_
        group = number % GROUPS
        if number < self._largest[group]:
            self.late.append(number)
        self._largest[group] = max(self._largest[group], number)

    def check(self, amount: int) -> None:
        """Fail unless all have come, and in order."""
        missing = range(amount) - self.ids.keys()
        assert not missing, f"{len(missing)} of {amount} are lost: {sorted(missing)[:3]}"
        invented = self.ids.keys() - set(range(amount))
        assert not invented, f"{len(invented)} were never sent: {sorted(invented)[:3]}"
        assert not self.late, f"{len(self.late)} are out of order: {self.late[:3]}"


class FarProgram(threading.Thread):
    """Works on one node after the other until it is over."""

    def __init__(self, urls: Iterable[str], queue: str) -> None:
        super().__init__(daemon=True)
        self._urls, self.queue = list(urls), queue
        self.over = threading.Event()
        self.last_error = ""

    def run(self) -> None:
        """Work, and connect to the next node when a connection breaks."""
        for url in cycle(self._urls):
            if self.over.is_set():
                return
            try:
                with Connection(url, connect_timeout=CONNECT_SECONDS, heartbeat=HEARTBEAT_SECONDS) as connection:
                    channel: Any = connection.default_channel
                    channel.queue_declare(self.queue, durable=True, auto_delete=False, arguments=QUORUM)
                    self.work(connection, channel)
            except Exception as error:  # noqa: BLE001 - the node was killed
                self.last_error = f"{type(error).__name__}: {error}"
                self.over.wait(0.2)

    def work(self, connection: Any, channel: Any) -> None:
        """Work until it is over, or the connection breaks."""
        raise NotImplementedError


class Taker(FarProgram):
    """Consumes all that has crossed."""

    def __init__(self, urls: Iterable[str], queue: str) -> None:
        super().__init__(urls, queue)
        self.numbers = Numbers()

    def work(self, connection: Any, channel: Any) -> None:
        """Consume, and acknowledge many together."""
        done = acknowledged = 0

        def take(message: Any) -> None:
            nonlocal done
            number = int(message.body)
            assert message.headers["x-group-key"] == f"g{number % GROUPS}"
            self.numbers.take(number, message.properties["message_id"])
            done = message.delivery_tag

        channel.basic_qos(0, PREFETCHED, False)
        channel.basic_consume(self.queue, callback=take)
        while not self.over.is_set():
            try:
                connection.drain_events(timeout=0.2)
            except TimeoutError:
                connection.heartbeat_check()
            else:
                if done - acknowledged < TOGETHER:
                    continue
            if done > acknowledged:
                channel.basic_ack(done, multiple=True)
                acknowledged = done


class Sender(FarProgram):
    """Publishes numbers, and again what was not confirmed: ids come more than once."""

    def __init__(self, urls: Iterable[str], queue: str, amount: int) -> None:
        super().__init__(urls, queue)
        self._amount = amount
        #: So many are confirmed.
        self.sent = 0

    def work(self, connection: Any, channel: Any) -> None:
        """Publish batches; each is confirmed before the next one."""
        confirmed = 0

        def confirm(tag: int, multiple: bool) -> None:
            nonlocal confirmed
            confirmed = max(confirmed, tag) if multiple else confirmed + 1

        channel.confirm_select()
        channel.events["basic_ack"].add(confirm)
        tag = 0
        while self.sent < self._amount and not self.over.is_set():
            numbers = range(self.sent, min(self._amount, self.sent + TOGETHER))
            for number in (*numbers, *numbers[:5]):
                channel.basic_publish(arrival(number), routing_key=self.queue, mandatory=True)
                tag += 1
            while confirmed < tag:
                connection.drain_events(timeout=ANSWER_SECONDS)
            self.sent = numbers.stop
        if self.sent >= self._amount:
            self.over.set()


def id_of(number: int) -> str:
    """Return the id with which a number is sent."""
    return str(UUID(int=number + 1))


def arrival(number: int) -> Sent:
    """Return the message of a number."""
    return Sent(
        str(number),
        message_id=id_of(number),
        content_type="application/json",
        delivery_mode=2,
        application_headers={"x-group-key": f"g{number % GROUPS}"},
    )
