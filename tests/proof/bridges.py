"""Messages that cross a bridge to a cluster of RabbitMQ, and others that come back, while everything is killed.

    python -m tests.proof.bridges --messages 1000000

So many messages are published here, go through a bridge into a quorum queue of three nodes, and are consumed
there. As many are published there, and are received here. Two workers do both, on a PostgreSQL of their own.
Meanwhile nodes, most of the nodes, workers and the database are killed, stopped and frozen, connections are cut,
the password is changed, and memory and disk alarms block publishers, at random instants. In the end each message
has arrived, is there once by its id, and in the order of its group; nothing is stuck, and nothing was
charged but what two workers held when they died.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.proof.clock import long_run
from tests.proof.soak import cut_connections, next_failure, patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.proof.far_side import Sender, Taker
    from tests.proof.place import Child, Place
    from tests.services.mariadb import MariaDB
    from tests.services.postgresql import PostgreSQL
    from tests.services.rabbitmq import RabbitMQ, RabbitMQCluster

OUT, IN, THEIRS = "outbox", "inbox", "theirs"
#: Messages in one transaction of the publisher.
BATCH = 500
WORKERS = 2
CONFIRM_SECONDS = 5.0
#: If nothing has moved for so long, something is stuck.
STUCK_SECONDS = 400.0
#: What goes wrong, and how often in comparison.
LIKELY = {
    "kill_worker": 12,
    "freeze_worker": 4,
    "cut": 8,
    "crash_database": 1,
    "restart_database": 1,
    "kill_node": 3,
    "stop_node": 1,
    "freeze_node": 2,
    "part_node": 1,
    "kill_most": 1,
    "kill_all": 1,
    "memory": 4,
    "disk": 4,
    "password": 1,
}


def settings_for(cluster: RabbitMQCluster) -> dict[str, Any]:
    """Return the settings of the site."""
    from tests.proof.far_side import QUORUM

    bridge = {
        "url": cluster.url,
        "declare": True,
        "arguments": QUORUM,
        "pause_seconds": 1.0,
        "connect_seconds": 3,
        "confirm_seconds": CONFIRM_SECONDS,
    }
    receiver = {"bridge": "other", "source": THEIRS, "queue": IN, "declare": True, "arguments": QUORUM}
    return {
        "BRIDGES": {"other": bridge},
        "QUEUES": {OUT: {"bridge": "other", "grouping": "shared"}, IN: {}, "proof": {}},
        "RECEIVERS": {"in": receiver},
    }


@dataclass
class Crossing:
    """One run."""

    place: Place
    server: PostgreSQL | MariaDB
    cluster: RabbitMQCluster
    chance: random.Random
    #: Seconds between two failures, on the average.
    every: float
    workers: list[Child] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    _begun: list[RabbitMQ] = field(default_factory=list)
    _moved: tuple[int, ...] = ()
    _moved_at: float = 0.0

    def run(self, messages: int, say: Callable[[str], None], *, schedule: Sequence[str] | None = None) -> None:
        """Publish on both sides, work, and break things until all is done, or as scheduled."""
        from tests.proof.far_side import Sender, Taker

        plan = None if schedule is None else list(reversed(schedule))
        steps = len(schedule or ()) + 1
        urls = [node.url for node in self.cluster.nodes]
        publisher = threading.Thread(target=self._publish, args=[messages], daemon=True)
        taker, sender = Taker(urls, OUT), Sender(urls, THEIRS, messages)
        self.workers = [self._a_worker() for _ in range(WORKERS)]
        for thread in (publisher, taker, sender):
            thread.start()
        said = 0.0
        while not self._is_over(messages, taker, sender) or plan:
            if plan is None:
                threading.Event().wait(self.chance.expovariate(1 / self.every))
            elif plan:
                # Each failure finds a part of the messages on the way.
                share = messages * (steps - len(plan)) // (2 * steps)
                self._wait_for(lambda: min(self._moved[:2]) >= share, messages, taker, sender)  # noqa: B023
            else:
                threading.Event().wait(0.1)
            self._break_something(plan)
            if time.monotonic() - said > 15:
                said = time.monotonic()
                say(self._figures(taker, sender))
        taker.over.set()
        for worker in self.workers:
            worker.end()
        taker.join()
        self.check(messages, taker)
        say(
            f"{messages:,} each way; {taker.numbers.duplicates:,} came twice there; {self._figures(taker, sender)}"
        )

    def _figures(self, taker: Taker, sender: Sender) -> str:
        there, here, left, sent = self._moved
        return f"{there:,} there, {left:,} wait; {sent:,} sent, {here:,} here; {dict(self.failures)}"

    def _wait_for(self, condition: Callable[[], bool], messages: int, taker: Taker, sender: Sender) -> None:
        while not self._is_over(messages, taker, sender) and not condition():
            threading.Event().wait(0.1)

    def _is_over(self, messages: int, taker: Taker, sender: Sender) -> bool:
        """Return whether all has arrived. Fails if nothing moves any more."""
        here, left = patiently(self._counts)
        moved = (len(taker.numbers.ids), here, left, sender.sent)
        if moved != self._moved:
            self._moved, self._moved_at = moved, time.monotonic()
        elif time.monotonic() - self._moved_at > STUCK_SECONDS:
            errors = f"{taker.last_error}; {sender.last_error}"
            raise AssertionError(f"stuck: {self._figures(taker, sender)}; {errors}\n{self.place.story()}")
        return min(moved[0], here, sender.sent) >= messages and not left

    def _counts(self) -> tuple[int, int]:
        from django_mq.models import Message

        rows = Message.objects.using(self.place.alias)
        here = rows.filter(queue__name=IN).count()
        return here, rows.exclude(queue__name=IN).count()

    def _publish(self, messages: int) -> None:
        from django.db import connections

        while (sent := patiently(self._published)) < messages:
            patiently(lambda: self._publish_from(sent, min(messages, sent + BATCH)))
        connections[self.place.alias].close()

    def _published(self) -> int:
        """Return how many were published: the answer to a commit may have been lost."""
        from tests.proof.notes import SENT, all_noted

        return all_noted(self.place.alias)[SENT]

    def _publish_from(self, first: int, end: int) -> None:
        from django.db import transaction

        from django_mq.api import OutgoingMessage, publish_many
        from tests.proof.far_side import GROUPS
        from tests.proof.notes import SENT, note

        letters = [
            OutgoingMessage(queue=OUT, body=number, group_key=f"g{number % GROUPS}")
            for number in range(first, end)
        ]
        with transaction.atomic(using=self.place.alias):
            if self._published() == first:
                note(SENT, publish_many(letters), self.place.alias)

    def _a_worker(self) -> Child:
        return self.place.start("manage", arguments=["mq_worker", "--queues", OUT])

    # What must be in the end.

    def check(self, messages: int, taker: Taker) -> None:
        """Fail unless each message is there once, in order, and was not charged."""
        from django_mq.bridges.receiver_state import ReceiverState
        from django_mq.models import Attempt, History, Message
        from tests.proof.far_side import Numbers, id_of
        from tests.proof.notes import SENT, noted

        alias = self.place.alias
        taker.numbers.check(messages)
        sent = noted(SENT, alias)
        assert Counter(taker.numbers.ids.values()) == Counter(map(str, sent))
        forwarded = History.objects.using(alias).filter(outcome=History.Outcome.FORWARDED)
        assert Counter(forwarded.values_list("message_id", flat=True).iterator()) == sent
        # A message that two workers held when they died may have killed them. Nothing else is charged.
        assert not Attempt.objects.using(alias).exclude(error="WorkerLost").exists()

        here = Numbers()
        rows = (
            Message.objects.using(alias)
            .order_by("id")
            .values_list("body", "message_id", "dead_reason", "attempts")
        )
        for body, id_, reason, attempts in rows.iterator():
            number = json.loads(bytes(body))
            assert (str(id_), reason, attempts) == (id_of(number), "", 0)
            here.take(number, str(id_))
        here.check(messages)
        assert not here.duplicates
        assert ReceiverState.objects.using(alias).get().kept == 0

    # What goes wrong.

    def _break_something(self, plan: list[str] | None) -> None:
        how = next_failure(self.chance, LIKELY, plan)
        if how is not None:
            getattr(self, f"_{how}")()
            self.failures[how] += 1

    def _wait(self, least: float, most: float) -> None:
        threading.Event().wait(self.chance.uniform(least, most))

    def _kill_worker(self) -> None:
        victim = self.chance.randrange(WORKERS)
        self.workers[victim].kill()
        self.workers[victim] = self._a_worker()

    def _freeze_worker(self) -> None:
        victim = self.chance.choice(self.workers)
        victim.signal(signal.SIGSTOP)
        self._wait(0, 5)
        victim.signal(signal.SIGCONT)

    def _cut(self) -> None:
        patiently(lambda: cut_connections(self.place.alias, share=0.5))

    def _crash_database(self) -> None:
        self.server.kill()
        self.server.start()

    def _restart_database(self) -> None:
        self.server.restart()

    def _a_node(self) -> RabbitMQ:
        """Return a node while all are there: what comes next must be able to end."""
        for node in self._begun:
            node.wait_until_it_answers()
        self._begun.clear()
        return self.chance.choice(self.cluster.nodes)

    def _begin(self, *nodes: RabbitMQ) -> None:
        """Start nodes; other things may go wrong until they answer."""
        self._wait(0, 2)
        for node in nodes:
            node.begin()
        self._begun += nodes

    def _kill_node(self) -> None:
        node = self._a_node()
        node.kill()
        self._begin(node)

    def _stop_node(self) -> None:
        node = self._a_node()
        node.stop()
        self._begin(node)

    def _freeze_node(self) -> None:
        node = self._a_node()
        node.freeze()
        self._wait(1, 2 * CONFIRM_SECONDS)
        node.thaw()

    def _part_node(self) -> None:
        """Let a node see no other one; clients still reach it."""
        node = self._a_node()
        node.part_from([other for other in self.cluster.nodes if other is not node])
        self._wait(CONFIRM_SECONDS, 3 * CONFIRM_SECONDS)
        node.kill()
        self._begin(node)

    def _kill_most(self) -> None:
        """Leave one node, which confirms nothing."""
        left = self._a_node()
        killed = [node for node in self.cluster.nodes if node is not left]
        for node in killed:
            node.kill()
        self._wait(0, 2 * CONFIRM_SECONDS)
        self._begin(*killed)

    def _kill_all(self) -> None:
        self._a_node()
        for node in self.cluster.nodes:
            node.kill()
        self._begin(*self.cluster.nodes)

    def _memory(self) -> None:
        node = self._a_node()
        node.run_short_of_memory()
        self._wait(0, 4)
        node.end_shortages()

    def _disk(self) -> None:
        node = self._a_node()
        node.run_short_of_disk()
        self._wait(0, 4)
        node.end_shortages()

    def _password(self) -> None:
        self._a_node().change_password("changed")
        for node in self.cluster.nodes:
            node.close_connections()
        self._wait(1, 4)
        self.cluster.nodes[0].change_password("guest")


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.bridges", description="Cross bridges, for long.")
    parser.add_argument("--messages", type=int, default=1_000_000, help="each way")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two failures, on the average")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    from tests.services.rabbitmq import RabbitMQCluster

    with RabbitMQCluster() as cluster, long_run(**settings_for(cluster)) as run:
        began = time.monotonic()
        crossing = Crossing(run.place, run.server, cluster, random.Random(given.seed), given.every)
        crossing.run(given.messages, run.say)
        run.say(f"{given.messages / (time.monotonic() - began):,.0f} messages a second each way")


if __name__ == "__main__":
    main()
