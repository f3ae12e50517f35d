"""Maintenance: promote, reap, expire, trim, prune, sum up, continue stalled operations.

Every worker can do it, and ``mq_maintenance`` where no worker runs. A duty is a few bounded statements, which many
processes may run at once. The worker whose session is the leader does it for all; the others do a round once in a
while, in case the leader cannot.
"""

from __future__ import annotations

import logging
import random
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from django.apps import apps
from django.conf import settings

from django_mq import conf, outages
from django_mq.delivery.consumer import sidecar
from django_mq.delivery.queues import declare_all
from django_mq.engine.decisions.claim import STALLED_SECONDS
from django_mq.errors import StoreError
from django_mq.notifications.base import News
from django_mq.notifications.registry import notifier

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from django_mq.stores.base import Store

logger = logging.getLogger("django_mq.delivery")

#: History is pruned once in so many rounds: it is never urgent.
PRUNE_EVERY = 60
#: A minute is summed up so many seconds after its end; the stores do nothing before.
MINUTE_SETTLES_SECONDS = 10
#: A worker that is not the leader does one round in so many.
LOOK_EVERY = 12
#: Messages changed by one statement, and rows of the history deleted by one round.
CHUNK, PRUNE_CHUNK = 1000, 5000
#: Workers of a queue that are woken at most when messages came back.
CROWD = 100
#: So many waits for an answer fit into the deadline of a session, which is then renewed over another connection.
ANSWERS = 3
#: Seconds until a session whose deadline was shortened has expired, if its worker does not renew it.
HASTENED_SECONDS = 2.6


def run_maintenance(
    store: Store,
    *,
    reap: bool = True,
    prune: bool = True,
    spare: int = 0,
    take_over: Callable[[], object] | None = None,
) -> dict[str, int]:
    """Run every duty once, reaping any session but ``spare``; return how many rows each changed.

    "uncovered" says whether messages are left to ask by declared selectors.
    ``take_over`` is called if an operation has stalled.
    """
    done = {"shortened": 0, "reaped": 0, "released": 0}
    session_seconds = conf.load().SESSION_SECONDS
    with store.answering_within(session_seconds / ANSWERS):
        chores = store.chores()
    if reap:
        end_stuck(store, session_seconds)
    if reap and chores.reap:
        done["shortened"] = store.shorten_deadlines()
        for session in store.reap(spare=spare):
            logger.warning(
                "Session %s (%r) is dead: %s messages given back",
                session.session_id,
                session.name,
                session.released,
            )
            done["reaped"] += 1
            done["released"] += session.released
    done["promoted"] = store.promote(CHUNK) if chores.promote else 0
    done["expired"] = store.expire(CHUNK) if chores.expire else 0
    done["unwanted"] = store.bury_unwanted() if chores.bury_unwanted else 0
    done["uncovered"] = int(chores.cover and store.cover())
    done["trimmed"] = store.trim() if chores.trim else 0
    done["deleted"] = _delete_unused(store) if chores.unused else 0
    done["pruned"] = store.prune() if prune else 0
    if chores.take_over and take_over is not None:
        take_over()
    # A dead session may have held a group or a consumer slot. What expired, was replaced, was in a deleted queue,
    # or is not wanted, may be ready in another queue.
    if any(done[name] for name in ("reaped", "promoted", "expired", "trimmed", "deleted", "unwanted")):
        _announce(store)
    return done


def end_stuck(store: Store, seconds: float) -> None:
    """End the connections of workers that have not taken an answer for so long."""
    for worker in store.end_stuck(seconds):
        logger.warning(
            "A connection of worker %s was ended: the worker took no answer for %g s, and kept its locks",
            worker,
            seconds,
        )


def run_maintenance_to_the_end(store: Store) -> dict[str, int]:
    """Run the duties until nothing is left to do; return how many rows each changed."""
    total: Counter[str] = Counter()
    while True:
        done = run_maintenance(store)
        total.update(done)
        # A duty that changed fewer rows than its chunk has found all.
        if max(done["promoted"], done["expired"], done["pruned"]) < CHUNK:
            store.roll_up()
            return dict(total)


def _delete_unused(store: Store) -> int:
    deleted = store.delete_unused()
    for name, messages in deleted.items():
        logger.info("Queue %r is deleted: no worker uses it. It held %s messages", name, messages)
    return len(deleted)


def _announce(store: Store) -> None:
    """Announce every queue that has ready messages."""
    counted = store.counts(limit=CROWD)
    ready = {name: News(messages=counts.ready, back=True) for name, counts in counted.items() if counts.ready}
    if ready:
        notifier().announce(ready, over=store)


class PacedMaintenance:
    """Maintenance of one worker, at its own pace."""

    def __init__(self, store: Store, every_seconds: float, *, grace_seconds: float) -> None:
        self._store = store
        self._every_seconds = every_seconds
        self._grace_seconds = grace_seconds
        self._rounds = 0
        # The last minute that was summed up.
        self._minute = -1
        self._next_at = time.monotonic()
        self._reap_from = 0.0
        self._pruning = self._covering = False
        self._take_over = TakeOver(store.alias)
        #: Whether to do every round. Until the first renewal answers, this session may be the leader.
        self.leader = True

    def set_leader(self, leader: bool) -> None:
        """Become the leader, or stop being it. A new leader begins at once: the last one may be dead."""
        if leader and not self.leader:
            self._next_at = time.monotonic()
        self.leader = leader

    def run_if_due(self, *, spare: int = 0) -> None:
        """Run a round if its time has come; it never reaps the session ``spare``. Raises StoreError."""
        now = time.monotonic()
        if self._pruning:
            # One batch for each call: a heartbeat cannot wait.
            self._prune()
        if self._covering:
            self._covering = self._store.cover()
        if now < self._next_at:
            return
        # Jitter spreads workers that were started together.
        self._next_at = now + self._every_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
        number, self._rounds = self._rounds, self._rounds + 1
        if number == 0:
            declare_all(self._store)
        if self.leader or number % LOOK_EVERY == 0:
            self._run_round(now, spare)
        if self.leader and number % PRUNE_EVERY == 0:
            self._prune()

    def _run_round(self, now: float, spare: int) -> None:
        self._take_over.look_after()
        done = run_maintenance(
            self._store,
            reap=now >= self._reap_from,
            prune=False,
            spare=spare,
            take_over=self._take_over.begin if self.leader else None,
        )
        self._covering = bool(done["uncovered"])
        if done["shortened"]:
            # From the end of the round: the deadline was set in the middle of it.
            self._next_at = min(self._next_at, time.monotonic() + HASTENED_SECONDS)
        if self.leader:
            self._roll_up()

    def _prune(self) -> None:
        self._pruning = self._store.prune(PRUNE_CHUNK) >= PRUNE_CHUNK

    def _roll_up(self) -> None:
        """Sum up the last minute once it is over; the first worker does it for all."""
        minute = int((time.time() - MINUTE_SETTLES_SECONDS) // 60)
        if minute != self._minute:
            self._store.roll_up()
            self._minute = minute

    def pause_after_outage(self) -> None:
        """Reap no session for one deadline: while the database was away, none could be renewed."""
        self._reap_from = time.monotonic() + self._grace_seconds

    def close(self) -> None:
        """End the process that continues an operation, after its batch."""
        self._take_over.close()

    def abandon(self) -> None:
        """Leave that process to the parent, in a forked child."""
        self._take_over.abandon()


def maintain(store: Store, stopping: threading.Event) -> None:
    """Do maintenance at a worker's pace until ``stopping`` is set, also after an outage of the database."""
    settings = conf.load()
    maintenance = PacedMaintenance(store, settings.MAINTENANCE_SECONDS, grace_seconds=settings.SESSION_SECONDS)
    outage = outages.database(store.alias)
    while not stopping.is_set():
        try:
            maintenance.run_if_due()
            outage.succeeded(maintenance)
        except StoreError as error:
            outage.failed(maintenance, error)
            store.close()
            maintenance.pause_after_outage()
        stopping.wait(settings.MAINTENANCE_SECONDS / 2)
    maintenance.close()


# Another process, ``mq_operations --take-over``, continues a stalled operation: it shares neither slots nor
# connections with the handlers, and nothing waits if it hangs. The operation's row says what to do, and with
# the permissions of which user.

#: The longest time until the next process where each one fails, in seconds.
LONGEST_PAUSE_SECONDS: Final = 600.0


class TakeOver:
    """Starts one process at a time to continue stalled operations of a database."""

    def __init__(self, alias: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._alias = alias
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_seconds = STALLED_SECONDS
        self._next_at = 0.0

    def begin(self) -> None:
        """Start the process, unless one runs, was started within STALLED_SECONDS, or has failed lately."""
        self.look_after()
        if self._process is not None or self._clock() < self._next_at:
            return
        self._next_at = self._clock() + STALLED_SECONDS
        module = settings.SETTINGS_MODULE
        if not module or not apps.is_installed("django.contrib.admin"):
            self._postpone(
                "the settings of this process have no module, or no admin: run manage.py mq_operations --take-over"
                " with the settings of the site"
            )
            return
        try:
            self._process = sidecar.start(
                *("django", "mq_operations", "--take-over", "--skip-checks", "--database", self._alias),
                environment={"DJANGO_SETTINGS_MODULE": module},
                stdin=subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            self._postpone(f"no process can be started: {error}")
            return
        logger.warning("An operation of the admin has stalled: process %s goes on with it", self._process.pid)

    def look_after(self) -> None:
        """Notice that the process has ended."""
        status = None if self._process is None else self._process.poll()
        if self._process is None or status is None:
            return
        pid, self._process = self._process.pid, None
        if status == 0:
            self._pause_seconds = STALLED_SECONDS
        else:
            self._postpone(f"process {pid} has ended with exit code {status}; its standard error says why")

    def _postpone(self, reason: str) -> None:
        """Wait twice as long before the next process."""
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        self._next_at = self._clock() + self._pause_seconds
        logger.error("An operation of the admin has stalled, and %s", reason)

    def close(self) -> None:
        """End the process after its batch."""
        self.look_after()
        if self._process is not None:
            self._process.terminate()

    def abandon(self) -> None:
        """Leave the process to the parent, in a forked child."""
        sidecar.disown(self._process)
        self._process = None
