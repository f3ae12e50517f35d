"""A redrive in stages sends a few messages, and the rest when these have succeeded; the first failure stops it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from django_mq.engine.decisions.verdict import Verdict
from django_mq.errors import MQError
from django_mq.failures import staged
from django_mq.models import FailureGroup, Message, StagedMessage, StagedRedrive
from django_mq.models.message import dead_letters
from django_mq.stores.records import Failure
from django_mq.stores.registry import shared_store
from tests.failures.conftest import TRACEBACK, grouped
from tests.stores.builders import claim, declare, open_session, publish, settle

pytestmark = pytest.mark.on("sqlite", once="postgresql")

KILLED = Failure("ValueError", "order 4711 is gone", TRACEBACK.format(line=31), "builtins.ValueError")
ACCEPT, DEAD, RELEASE = Verdict.ACCEPT, Verdict.DEAD, Verdict.RELEASE
RUNNING, DONE, STOPPED = StagedRedrive.Status


class Site:
    """A queue, a worker, and what an operator does."""

    def __init__(self, alias: str) -> None:
        self.alias, self.store = alias, shared_store(alias)
        self.worker = open_session(self.store, deadline_seconds=3600.0)

    def kill(self, number: int, queue: str = "orders") -> None:
        """Let so many messages die."""
        for _ in range(number):
            publish(self.store, queue)
        self.work(DEAD, queue=queue, reason="boom", failure=KILLED)

    def work(self, how: Verdict = ACCEPT, *, most: int = 1000, queue: str = "orders", **given: Any) -> int:
        """Let the worker claim and settle what is ready; return how many messages it got."""
        found = claim(self.store, self.worker, queue, credit=most)
        for message in found:
            settle(self.store, self.worker, message, how, **given)
        return len(found)

    def begin(self, first: int = 0, per_minute: float | None = None, **given: Any) -> StagedRedrive:
        [group] = grouped(self.alias).values()
        return staged.begin(group, first=first, per_minute=per_minute, using=self.alias, **given)

    def step(self, redrive: StagedRedrive) -> StagedRedrive:
        staged.steer(self.store, 100)
        redrive.refresh_from_db(using=self.alias)
        return redrive

    def pass_time(self, redrive: StagedRedrive, seconds: float) -> None:
        """Let the rate have been unused for longer."""
        earlier = redrive.paced_at - timedelta(seconds=seconds)
        StagedRedrive.objects.using(self.alias).filter(pk=redrive.pk).update(paced_at=earlier)

    @property
    def dead(self) -> int:
        return Message.objects.using(self.alias).filter(dead_letters()).count()


@pytest.fixture
def shop(alias: str) -> Site:
    return Site(alias)


def test_the_rest_goes_when_the_first_have_succeeded(shop: Site) -> None:
    shop.kill(8)
    redrive = shop.begin(first=3)

    assert (shop.step(redrive).sent, shop.dead) == (3, 5)
    assert (shop.step(redrive).sent, redrive.succeeded) == (3, 0)
    assert shop.work(most=2) == 2
    assert (shop.step(redrive).sent, redrive.succeeded) == (3, 2)
    assert shop.work() == 1
    assert (shop.step(redrive).sent, redrive.succeeded) == (8, 3)
    assert shop.work() == 5
    shop.step(redrive)
    assert (redrive.status, redrive.succeeded, redrive.failed, shop.dead) == (DONE, 8, 0, 0)


@pytest.mark.parametrize("how", [DEAD, RELEASE])
def test_the_first_failure_stops_it_and_it_goes_on_when_told_so(shop: Site, how: Verdict) -> None:
    shop.kill(6)
    redrive = shop.begin(first=2)
    shop.step(redrive)
    shop.work(most=1)
    shop.work(how, most=1, failure=KILLED, counted=True, delay_seconds=3600.0, reason="boom")

    shop.step(redrive)
    assert (redrive.status, redrive.reason, redrive.sent, redrive.failed) == (STOPPED, "failed", 2, 1)
    assert StagedMessage.objects.using(shop.alias).filter(message_id=redrive.about).exists()
    assert shop.step(redrive).sent == 2

    assert staged.go_on(redrive.pk, using=shop.alias)
    assert (shop.step(redrive).sent, redrive.status) == (6, RUNNING)
    shop.work()
    assert (shop.step(redrive).status, redrive.succeeded, redrive.failed) == (DONE, 5, 1)


def test_a_failure_among_the_rest_stops_it_too(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "BATCH", 2)
    shop.kill(8)
    redrive = shop.begin()
    shop.step(redrive)
    shop.step(redrive)
    assert redrive.sent == 4
    shop.work(most=3)
    shop.work(DEAD, reason="boom", failure=KILLED)

    assert (shop.step(redrive).status, redrive.failed) == (STOPPED, 1)
    assert shop.dead == 5


def test_a_rate_is_kept(shop: Site) -> None:
    """After an hour, a minute is made up for, so it does not count how slow the machine is."""
    shop.kill(9)
    redrive = shop.begin(per_minute=3.0)
    sent = []
    for _ in range(2):
        shop.pass_time(redrive, 3600.0)
        sent.append(shop.step(redrive).sent)

    assert sent == [3, 6]


def test_dead_letters_in_a_dead_letter_queue_are_followed(shop: Site) -> None:
    declare(shop.store, "letters")
    declare(shop.store, "bills", dead_letter_queue="letters")
    shop.kill(3, queue="bills")
    redrive = shop.begin(first=1)
    shop.step(redrive)
    shop.work(queue="bills")
    shop.step(redrive)
    assert (redrive.sent, redrive.succeeded) == (3, 1)
    shop.work(DEAD, most=1, queue="bills", reason="boom")

    assert (shop.step(redrive).status, redrive.failed) == (STOPPED, 1)


def test_another_message_goes_in_place_of_one_that_was_removed(shop: Site) -> None:
    shop.kill(3)
    redrive = shop.begin(first=1)
    shop.step(redrive)
    sent = StagedMessage.objects.using(shop.alias).get()
    shop.store.operations.cancel([sent.row_id])
    assert (shop.step(redrive).sent, redrive.removed) == (2, 1)
    shop.work()

    assert (shop.step(redrive).sent, redrive.succeeded) == (3, 1)


def test_what_dies_again_is_not_sent_again(shop: Site) -> None:
    shop.kill(2)
    redrive = shop.begin(first=2)
    shop.step(redrive)
    shop.work(DEAD, reason="boom", failure=KILLED)
    shop.step(redrive)
    staged.go_on(redrive.pk, using=shop.alias)
    shop.step(redrive)

    assert (redrive.status, redrive.sent, redrive.failed, shop.dead) == (DONE, 2, 2, 2)


def test_a_message_of_a_closed_queue_stays(shop: Site) -> None:
    declare(shop.store, "letters")
    declare(shop.store, "bills", dead_letter_queue="letters", max_messages=1)
    shop.kill(1, queue="bills")
    publish(shop.store, "bills")
    redrive = shop.begin()

    assert (shop.step(redrive).stayed, redrive.sent) == (1, 0)
    assert shop.step(redrive).status == DONE


def test_an_operator_stops_it(shop: Site) -> None:
    shop.kill(4)
    redrive = shop.begin(first=2)
    shop.step(redrive)

    assert staged.stop(redrive.pk, using=shop.alias)
    assert not staged.stop(redrive.pk, using=shop.alias)
    shop.work()
    assert (shop.step(redrive).sent, redrive.status, redrive.reason) == (2, STOPPED, "operator")


@pytest.mark.django_db(databases="__all__")
def test_it_stops_when_its_user_may_not_redrive_any_more(shop: Site) -> None:
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="redrive_message"))
    shop.kill(4)
    redrive = shop.begin(first=2, user_name="ada")
    assert shop.step(redrive).sent == 2
    user.user_permissions.clear()
    shop.work()

    assert (shop.step(redrive).status, redrive.reason, redrive.sent) == (STOPPED, "refused", 2)
    assert "ada" in redrive.about


def test_of_two_operators_one_begins_or_continues_the_redrive_of_a_group(shop: Site) -> None:
    shop.kill(4)
    first = shop.begin(first=2)
    with pytest.raises(MQError, match=f"The redrive #{first.pk} of this group runs already"):
        shop.begin(first=2)
    assert staged.stop(first.pk, using=shop.alias)
    second = shop.begin(first=2)

    with pytest.raises(MQError, match=f"#{second.pk} "):
        staged.go_on(first.pk, using=shop.alias)
    assert list(StagedRedrive.objects.using(shop.alias).values_list("status", flat=True)) == [RUNNING, STOPPED]


def test_two_processes_take_one_step_after_the_other(shop: Site) -> None:
    shop.kill(4)
    redrive = shop.begin(first=2)
    StagedRedrive.objects.using(shop.alias).filter(pk=redrive.pk).update(status=STOPPED)

    assert staged._step(redrive.pk, shop.alias) == 0
    assert shop.dead == 4


def test_old_redrives_are_forgotten(shop: Site) -> None:
    shop.kill(2)
    redrive = shop.begin()
    shop.step(redrive)
    shop.work()
    shop.step(redrive)
    long_ago = redrive.beat_at - staged.KEPT - timedelta(days=1)
    StagedRedrive.objects.using(shop.alias).update(beat_at=long_ago)

    while staged.forget_old(shop.store, 1):
        pass

    assert not StagedRedrive.objects.using(shop.alias).exists()
    assert not StagedMessage.objects.using(shop.alias).exists()
    assert FailureGroup.objects.using(shop.alias).exists()
