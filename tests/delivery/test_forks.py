"""A process that holds leases forks, as Celery's does for each child of its pool."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from django_mq.delivery.publisher import publish
from django_mq.delivery.queues import declare
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    #: The environment of a process on the test's database.
    Environment = Callable[[str], dict[str, str]]

pytestmark = pytest.mark.on("postgresql")

HOLD = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
import django
django.setup()
from django_mq.delivery.consumer.session import Session
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store

def child_is_well(act):
    pid = os.fork()
    if pid == 0:
        act()
        sys.exit(0)  # an exit like any other: atexit and destructors run
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

session = Session("default", kind="native", wake=Wake())
[held] = session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1)).claimed
"""

CLOSE_IN_CHILD = """
def act():
    session.accept(held)
    session.flush()
    session.retire()
    session.close()
    assert private_store("default").queues.find("orders").name == "orders"
    assert shared_store("default").queues.find("orders").name == "orders"

assert child_is_well(act)
assert shared_store("default").queues.counts()["orders"].claimed == 1
session.accept(held)
session.close()
"""

FORK_UNDER_LOAD = """
store, stopping, failed = private_store("default"), threading.Event(), []

def use():
    while not stopping.is_set():
        try:
            assert store.queues.find("orders").name == "orders"
        except BaseException as error:
            failed.append(error)

threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads: thread.start()
well = [child_is_well(lambda: private_store("default").queues.find("orders")) for _ in range(12)]
stopping.set()
for thread in threads: thread.join()
assert all(well) and not failed, failed
session.accept(held)
session.close()
"""

FORK_BESIDE_DUTIES = """
from django_mq.delivery.consumer.background import Background
from django_mq.models import Queue
from django_mq.seams.extension import Duty

begun, may_end, looks = threading.Event(), threading.Event(), []

def look(store, limit):
    begun.set()
    may_end.wait()
    for _ in range(200):
        looks.append(Queue.objects.using("default").count())
    return 0

background = Background("default")
background.begin([Duty(name="look", run=look)])
begun.wait()
os.register_at_fork(before=may_end.set)  # it is called before the hooks that were there

def act():
    assert len(looks) == 200
    assert shared_store("default").queues.find("orders").name == "orders"

assert child_is_well(act)
background.close()
session.accept(held)
session.close()
"""

ASYNC_IN_CHILD = """
import asyncio
from celery import Celery
from django_mq.api import apublish, apublish_many

app = Celery("unit", broker="django-mq://", set_as_current=False)

async def view():
    await apublish("orders", 2)
    await apublish_many([("orders", 3)])
    app.send_task("note", queue="orders")

def act():
    warnings.simplefilter("ignore", ResourceWarning)  # connections that end with the process
    asyncio.run(view())

act()
assert child_is_well(act)
act()
session.accept(held)
session.close()
"""

LOCKS = """
import gc, importlib, pkgutil
from concurrent.futures import Executor
import django_mq
from django_mq.notifications.registry import LocalNotifier
from django_mq.notifications.redis import RedisNotifier

for module in pkgutil.walk_packages(django_mq.__path__, "django_mq."):
    if not any(part in module.name for part in (".migrations", ".pipeline", ".management", ".benchmarks")):
        importlib.import_module(module.name)
made = [LocalNotifier(), RedisNotifier("redis://127.0.0.1:1/0", prefix="mq", timeout_seconds=0.1)]
KINDS = type(threading.Lock()), type(threading.RLock()), threading.Condition
# Their methods look at the process before they take the lock; see the tests of these classes. A child never uses a
# connection of its parent, whose lock is the driver's.
PID_FIRST = {"Wake", "RedisListener", "Broker", "ImpatientConnection"}

def owners():
    for object_ in gc.get_objects():
        kind = type(object_)
        if str(kind.__module__).startswith("django_mq.") and kind.__name__ not in PID_FIRST:
            yield kind.__name__, object_, getattr(object_, "__dict__", {})
    for name, module in list(sys.modules.items()):
        if name.startswith("django_mq."):
            yield name, module, vars(module)

def find_locks():
    return [(name, values, key) for name, _, values in list(owners()) for key, value in list(values.items())
            if isinstance(value, KINDS)]

found = find_locks()
pools = [(values, key) for _, _, values in list(owners()) for key, value in list(values.items())
         if isinstance(value, Executor)]
names = {name for name, _, _ in found}
assert names >= {"Breaker", "Gathering", "Poster", "Question", "SettlementWriter", "SharedState"}, names
assert len(pools) == 2
for values, key in pools:
    values[key].submit(int).result()

held_all, over = threading.Event(), threading.Event()
def hold():
    for name, values, key in found:
        values[key].acquire()
    held_all.set()
    over.wait()
    for name, values, key in found:
        values[key].release()
holder = threading.Thread(target=hold)
holder.start()
held_all.wait()

def act():
    for name, values, key in find_locks():
        assert values[key].acquire(blocking=False), (name, key)
        values[key].release()
    for values, key in pools:
        assert values[key].submit(int).result(timeout=60) == 0

well = child_is_well(act)
over.set()
holder.join()
assert well
session.accept(held)
session.close()
"""


def run(script: str, environment: dict[str, str]) -> None:
    """Run a script in a process of its own; it must end well and say nothing."""
    done = subprocess.run(
        [sys.executable, "-c", HOLD + script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stderr, done.stdout, done.returncode) == ("", "", 0)


@pytest.fixture
def environment(committed_database: str, process_environment: Environment) -> dict[str, str]:
    """The environment of a process on a database with one message."""
    declare(shared_store(committed_database), "orders")
    publish("orders", 1)
    return process_environment(committed_database)


def test_a_child_ends_nothing_of_its_parents(committed_database: str, environment: dict[str, str]) -> None:
    run(CLOSE_IN_CHILD, environment)

    assert not Message.objects.using(committed_database).exists()
    assert History.objects.using(committed_database).get().outcome == History.Outcome.ACCEPTED


@pytest.mark.once
def test_forking_beside_threads_that_use_the_database(
    committed_database: str, environment: dict[str, str]
) -> None:
    run(FORK_UNDER_LOAD, environment)

    assert not Message.objects.using(committed_database).exists()


def test_a_fork_waits_for_duties_that_use_the_database(
    committed_database: str, environment: dict[str, str]
) -> None:
    run(FORK_BESIDE_DUTIES, environment)

    assert not Message.objects.using(committed_database).exists()


def test_a_forked_child_publishes_from_async_code(committed_database: str, environment: dict[str, str]) -> None:
    run(ASYNC_IN_CHILD, environment)

    assert Message.objects.using(committed_database).count() == 9


@pytest.mark.once
def test_no_lock_or_thread_of_the_parent_keeps_a_child_waiting(environment: dict[str, str]) -> None:
    run(LOCKS, environment)
