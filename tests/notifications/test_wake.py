"""The wake: set from anywhere, seen once, harmless when nothing waits."""

from __future__ import annotations

import select
import threading

from django_mq.notifications.base import ANY, Wake
from tests.support.forking import exit_code_of_child, held_by_another_thread


def test_many_sets_before_a_clear_count_as_one() -> None:
    wake = Wake()
    for _ in range(100_000):
        wake.set("q:orders")

    assert wake.wait(0)
    assert not wake.wait(0)
    wake.close()


def test_it_can_be_watched_as_a_file_descriptor() -> None:
    wake = Wake()
    assert select.select([wake], [], [], 0)[0] == []

    wake.set()

    assert select.select([wake], [], [], 0)[0] == [wake]
    wake.close()


def test_topics_are_taken_once() -> None:
    wake = Wake()
    wake.set("q:orders")
    wake.set()

    assert wake.take_topics() == {"q:orders", ANY}
    assert wake.take_topics() == set()
    wake.close()


def test_another_thread_ends_the_wait() -> None:
    wake = Wake()
    thread = threading.Thread(target=wake.set)
    thread.start()

    assert wake.wait(30)
    thread.join()
    wake.close()


def test_setting_a_closed_wake_does_nothing() -> None:
    wake = Wake()
    wake.close()

    wake.set("q:orders")
    wake.close()

    assert wake.take_topics() == set()


def test_a_forked_child_cannot_wake_its_parent() -> None:
    wake = Wake()

    assert exit_code_of_child(wake.set) == 0
    assert not wake.wait(0)
    wake.close()


def test_a_forked_child_takes_nothing_of_its_parent_and_waits_for_no_lock_of_it() -> None:
    wake = Wake()
    wake.set("q:orders")

    def look_and_close() -> int:
        taken = wake.clear() or wake.take_topics()
        wake.close()
        return 1 if taken else 0

    with held_by_another_thread(wake._lock):
        ended = exit_code_of_child(look_and_close)

    assert ended == 0
    assert wake.clear()
    assert wake.take_topics() == {"q:orders"}
    wake.close()
