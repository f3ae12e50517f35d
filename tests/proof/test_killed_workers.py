"""Workers die at any instant."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.delivery.publisher import OutgoingMessage, publish_many
from django_mq.engine.states import State
from tests.proof.account import Account
from tests.proof.notes import SENT, note
from tests.proof.roles import QUEUE
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proof.place import Child, Place

KILLS = 200
#: A worker needs some 50 ms to its first message on an idle machine; it is killed anywhere before, in
#: and after that. On a busy one all takes longer, and so it lives longer, up to a limit.
SHORTEST_LONGEST, LONGEST_LONGEST = 0.07, 0.3
#: Fewer ready messages than this, and a fast machine might have none left to be killed over.
FEWEST_READY, REFILL = 200, 500


def live_for(seconds: float) -> None:
    """Let some time pass: the instant of a death is the only thing that is left to chance."""
    threading.Event().wait(seconds)


def longest_life(place: Place, **options: object) -> float:
    """Return how long a worker may live at most: half as long again as one needs to its first message."""
    born = time.monotonic()
    worker = place.start("consume", **options)
    wait_until(lambda: Account.of(place.alias).accepted, place.story)
    needed = time.monotonic() - born
    worker.kill()
    return min(max(needed * 1.5, SHORTEST_LONGEST), LONGEST_LONGEST)


def refill(place: Place) -> None:
    """See to it that there is work."""
    if place.count(State.READY) < FEWEST_READY:
        place.send(REFILL)


def kill_at_random(place: Place, chance: random.Random, kills: int, **options: object) -> None:
    """Keep two workers, a publisher and an maintenance busy, and kill one of them again and again.

    There is always work: a worker that waits for a message has nothing to lose.
    """
    longest = longest_life(place, **options)
    orders = [("consume", options), ("consume", options), ("send", {"batch": 5, "pause": 0.05}), ("tidy", {})]
    children = [place.start(role, **given) for role, given in orders]
    workers_killed = 0
    while workers_killed < kills:
        refill(place)
        live_for(chance.uniform(0, longest))
        # Workers four times as often as the others: the test is about them.
        [victim] = chance.choices(range(4), weights=(4, 4, 1, 1))
        children[victim].kill()
        role, given = orders[victim]
        children[victim] = place.start(role, **given)
        workers_killed += role == "consume"
    for child in children:
        child.kill()


@pytest.mark.once
def test_two_hundred_workers_killed_at_random_instants_lose_nothing(place: Place) -> None:
    place.declare(max_attempts=0)
    place.send(1_000)

    kill_at_random(place, random.Random(4), KILLS)
    halfway = Account.of(place.alias)
    halfway.check()
    # However much the dying got done, those that follow have something to do.
    place.send(100)
    ended = place.finish(threads=4, credit=100)

    ended.check()
    ended.check_done()
    assert not ended.dead
    assert len(halfway.accepted) < len(ended.accepted)
    assert "messages given back" in place.said


@pytest.mark.on("postgresql")
@pytest.mark.once
@pytest.mark.parametrize(
    "rules",
    [{"grouping": "shared", "max_consumers": 2}, {"grouping": "balanced"}],
    ids=["shared and slots", "balanced"],
)
def test_groups_keep_their_order_over_forty_kills(place: Place, rules: dict[str, Any], tmp_path: Path) -> None:
    groups, steps = [f"group {number}" for number in range(6)], 100
    work = {"groups": str(tmp_path), "selector": "group LIKE 'group %'"}
    place.declare(max_attempts=0, backoff_seconds=0.01, **rules)
    sent = [
        OutgoingMessage(queue=QUEUE, body=step, group_key=group, headers={"group": group})
        for step in range(steps)
        for group in groups
    ]
    note(SENT, publish_many(sent, using=place.alias), place.alias)

    workers, chance = [place.start("consume", **work) for _ in range(2)], random.Random(7)
    for _ in range(40):
        live_for(chance.uniform(0.05, 0.3))
        victim = chance.randrange(2)
        workers[victim].kill()
        workers[victim] = place.start("consume", **work)
    for worker in workers:
        worker.kill()
    ended = place.finish(threads=4, **work)

    ended.check()
    ended.check_done()
    assert (len(ended.accepted), (tmp_path / "clash").exists()) == (steps * len(groups), False)
    for group in groups:
        taken = [int(line) for line in (tmp_path / group).read_text().split()]
        # A step is taken again after a death or a failure, and no step is taken before the one before it.
        assert all(step <= max(taken[:index], default=-1) + 1 for index, step in enumerate(taken))


@pytest.mark.on("postgresql")
@pytest.mark.once
def test_a_transactional_handlers_effects_happen_exactly_once_over_fifty_kills(place: Place) -> None:
    place.declare(max_attempts=0)
    place.send(500)

    kill_at_random(place, random.Random(50), 50, transactional=True)
    ended = place.finish(threads=4, transactional=True)

    ended.check()
    ended.check_done(once=True)


def test_a_publisher_killed_before_its_commit_has_published_nothing(place: Place, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    publisher = place.start("send_and_stop", where="before commit", flag=str(flag))
    wait_until(flag.exists, place.story)

    publisher.kill()

    wait_until(lambda: Account.of(place.alias).sent == Counter())
    assert place.count() == 0


def test_a_publisher_killed_between_commit_and_hint_has_published(place: Place, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    worker = place.start("consume")
    wait_until(place.sessions, place.story)
    publisher = place.start("send_and_stop", where="before hint", flag=str(flag))
    wait_until(flag.exists, place.story)

    publisher.kill()

    wait_until(lambda: Account.of(place.alias).accepted, place.story)
    worker.end()
    account = Account.of(place.alias)
    account.check()
    account.check_done(once=True)


@pytest.mark.once
def test_a_frozen_workers_late_settlements_are_void(place: Place) -> None:
    frozen = place.start("consume", credit=50)
    wait_until(lambda: freeze_at_work(place, frozen), place.story)
    [session] = place.sessions()

    other = place.start("consume")
    wait_until(lambda: session not in place.sessions(), place.story)
    # What nothing has become of yet, the session would be given again.
    wait_until(lambda: not place.count(State.READY, State.CLAIMED, State.SCHEDULED), place.story)
    frozen.signal(signal.SIGCONT)
    # What it says depends on which of its threads looks first, and on whether all it held was handled by then.
    wait_until(lambda: "beginning anew" in place.said or "settlements were void" in place.said, place.story)

    other.end()
    frozen.end()
    place.finish().check()


def is_at_work(place: Place) -> bool:
    """Whether anybody holds a message. There is always another, however late we look."""
    refill(place)
    return place.count(State.CLAIMED) > 0


def freeze_at_work(place: Place, child: Child) -> bool:
    """Freeze a worker; return whether it holds something then, or let it go on."""
    if not is_at_work(place):
        return False
    place.freeze(child)
    if place.count(State.CLAIMED):
        return True
    child.signal(signal.SIGCONT)
    return False


@pytest.mark.on("postgresql")
@pytest.mark.once
def test_maintenance_killed_midway_leaves_nothing_half_done(place: Place) -> None:
    chance = random.Random(8)
    place.declare(max_attempts=1)
    for _ in range(10):
        place.send(200)
        doomed = place.start("consume", credit=200)
        wait_until(lambda: is_at_work(place), place.story)
        doomed.kill()
        # By its clock every session has expired: two of them reap at once, and die at it.
        reapers = [place.start("tidy", clock=1000.0) for _ in range(2)]
        live_for(chance.uniform(0, SHORTEST_LONGEST))
        for reaper in reapers:
            reaper.kill()
        Account.of(place.alias).check()

    place.finish(threads=4).check()
