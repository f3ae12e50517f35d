"""A process that holds leases forks, as Celery's does for each child of its pool."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from django_mq.delivery.declaring import declare
from django_mq.delivery.publishing import publish
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from collections.abc import Callable

    #: The environment of a process on the test's database.
    Environment = Callable[[str], dict[str, str]]

HOLD = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what this is about
import django
django.setup()
from django_mq.delivery.session import Session
from django_mq.notifications.wake import Wake
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store, shared_store

def child_is_well(act):
    pid = os.fork()
    if pid == 0:
        act()
        sys.exit(0)  # an exit like any other: atexit and destructors run
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

session = Session("default", kind="native", wake=Wake())
[held] = session.exchange(ClaimRequest(queues=("orders",), credit=1)).claimed
"""

CLOSE_IN_CHILD = """
def act():
    session.accept(held)
    session.flush()
    session.retire()
    session.close()
    assert private_store("default").queue("orders").name == "orders"
    assert shared_store("default").queue("orders").name == "orders"

assert child_is_well(act)
assert shared_store("default").counts()["orders"].claimed == 1
session.accept(held)
session.close()
"""

FORK_UNDER_LOAD = """
store, stopping, failed = private_store("default"), threading.Event(), []

def use():
    while not stopping.is_set():
        try:
            assert store.queue("orders").name == "orders"
        except BaseException as error:
            failed.append(error)

threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads: thread.start()
well = [child_is_well(lambda: private_store("default").queue("orders")) for _ in range(12)]
stopping.set()
for thread in threads: thread.join()
assert all(well) and not failed, failed
session.accept(held)
session.close()
"""


def run(script: str, environment: dict[str, str]) -> None:
    """Run a script in a process of its own; it must end well and say nothing."""
    done = subprocess.run(
        [sys.executable, "-c", HOLD + script], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_child_ends_nothing_of_its_parents(committed_database: str, process_environment: Environment) -> None:
    declare(shared_store(committed_database), "orders")
    publish("orders", 1)

    run(CLOSE_IN_CHILD, process_environment(committed_database))

    assert not Message.objects.using(committed_database).exists()
    assert History.objects.using(committed_database).get().outcome == History.Outcome.ACCEPTED


def test_forking_beside_threads_that_use_the_database(
    committed_database: str, process_environment: Environment
) -> None:
    declare(shared_store(committed_database), "orders")
    publish("orders", 1)

    run(FORK_UNDER_LOAD, process_environment(committed_database))

    assert not Message.objects.using(committed_database).exists()
