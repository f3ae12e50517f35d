"""Two publishers and two workers on one SQLite file never find it locked."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from django_mq.delivery.queues import declare
from django_mq.models import History, Message
from django_mq.stores.registry import shared_store
from tests.benchmarks.crowd import QUEUE
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

Environment = dict[str, str]


@pytest.mark.django_db(databases=["default"], transaction=True)
def test_a_crowd_on_one_file_never_finds_it_locked(process_environment: Callable[[str], Environment]) -> None:
    assert meet(process_environment("default"), 60) == ""


@pytest.mark.once
@pytest.mark.django_db(databases=["default"], transaction=True)
def test_a_crowd_on_one_file_that_goes_on_never_finds_it_locked(
    process_environment: Callable[[str], Environment],
) -> None:
    end = time.monotonic() + 15
    while time.monotonic() < end:
        assert meet(process_environment("default"), 1000) == ""


def meet(environment: Environment, amount: int) -> str:
    """Let two publish so many each and two work until all is finished; return what they complained of."""
    declare(shared_store("default"), QUEUE)
    before = History.objects.filter(queue_name=QUEUE).count()
    with ExitStack() as stack:
        workers = [start(stack, environment, "work") for _ in range(2)]
        publishers = [start(stack, environment, "publish", str(amount)) for _ in range(2)]
        complaints = [process.communicate()[1] for process in publishers]
        finished = before + 2 * amount
        wait_until(lambda: History.objects.filter(queue_name=QUEUE).count() == finished)
        complaints += [process.communicate()[1] for process in workers]
        codes = [process.returncode for process in publishers + workers]
    assert codes == [0, 0, 0, 0], complaints
    assert not Message.objects.filter(queue__name=QUEUE).exists()
    return "".join(complaints)


def start(stack: ExitStack, environment: Environment, *role: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.crowd", *role],
        env=environment,
        stdin=subprocess.PIPE if role == ("work",) else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process
