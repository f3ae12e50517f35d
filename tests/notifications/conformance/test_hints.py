"""What every notifier promises as long as nothing breaks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from django_mq.seams.findings import Level
from tests.support.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from django_mq.notifications.base import Notifier, Wake
    from tests.notifications.conformance.conftest import Ears


def wait_for(wake: Wake, *topics: str) -> None:
    heard: set[str] = set()
    while not set(topics) <= heard:
        assert wake.wait(PATIENCE_SECONDS), f"{set(topics) - heard} did not come"
        heard |= wake.take_topics()


def heard_after(notifier: Notifier, wake: Wake, topic: str) -> bool:
    notifier.send([topic])
    return wake.wait(0.05) and topic in wake.take_topics()


def test_a_hint_wakes_and_names_its_topic(notifier: Notifier, ears: Ears) -> None:
    _, wake = ears.listen(["q:orders"])

    notifier.send(["q:orders"])

    wait_for(wake, "q:orders")


def test_one_send_may_name_many_topics(notifier: Notifier, ears: Ears) -> None:
    _, wake = ears.listen(["q:orders", "q:mails", "q:other"])

    notifier.send(["q:orders", "q:mails"])

    wait_for(wake, "q:orders", "q:mails")


def test_everybody_who_listens_is_woken(notifier: Notifier, ears: Ears) -> None:
    wakes = [ears.listen(["q:orders"])[1] for _ in range(3)]

    notifier.send(["q:orders"])

    for wake in wakes:
        wait_for(wake, "q:orders")


def test_only_subscribed_topics_are_heard(notifier: Notifier, ears: Ears) -> None:
    _, wake = ears.listen(["q:orders"])

    notifier.send(["q:other"])
    notifier.send(["q:orders"])

    assert wake.wait(PATIENCE_SECONDS)
    assert wake.take_topics() == {"q:orders"}


def test_topics_may_change_while_listening(notifier: Notifier, ears: Ears) -> None:
    listener, wake = ears.listen(["q:orders"])

    listener.subscribe(["q:mails"])
    # Subscribing travels on another connection than sending: what was sent before may pass it.
    wait_until(lambda: heard_after(notifier, wake, "q:mails"))
    notifier.send(["q:orders"])
    notifier.send(["q:mails"])

    wait_for(wake, "q:mails")
    assert "q:orders" not in wake.take_topics()


def test_a_closed_listener_hears_nothing(notifier: Notifier, ears: Ears) -> None:
    listener, wake = ears.listen(["q:orders"])
    _, witness = ears.listen(["q:orders"])
    listener.close()
    wake.clear()

    notifier.send(["q:orders"])

    wait_for(witness, "q:orders")
    assert not wake.wait(0)


def test_nobody_listening_is_no_error(notifier: Notifier) -> None:
    notifier.send(["q:orders"])
    notifier.send([])


def test_any_thread_may_send(notifier: Notifier, ears: Ears) -> None:
    _, wake = ears.listen([f"q:{number}" for number in range(8)])

    threads = [threading.Thread(target=notifier.send, args=([f"q:{number}"],)) for number in range(8)]
    for thread in threads:
        thread.start()

    wait_for(wake, *(f"q:{number}" for number in range(8)))
    for thread in threads:
        thread.join()


def test_a_name_of_any_kind_is_a_topic(notifier: Notifier, ears: Ears) -> None:
    names = ["q:with space", "q:Bücher", "q:*", "q:[a]", "q:a:b"]
    _, wake = ears.listen(names)

    notifier.send(names)

    wait_for(wake, *names)


def test_an_examination_finds_nothing_wrong(notifier: Notifier) -> None:
    assert [finding.level for finding in notifier.findings()] == [Level.OK]
