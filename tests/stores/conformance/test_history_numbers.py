"""The history's numbers: the last one that was given, and the transactions that may still write below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_mq.engine.decisions.verdict import Verdict
from tests.stores.builders import claim, publish, settle
from tests.stores.conftest import ON_DATABASES

if TYPE_CHECKING:
    from django_mq.stores.base import Store


def test_nobody_is_waited_for_where_nobody_writes(store: Store, orders: str) -> None:
    assert store.browser.finishing(None, after=0, last=store.browser.last_finished()) == frozenset()
    assert store.browser.finishing(frozenset({"long gone"}), after=0, last=0) == frozenset()


@ON_DATABASES
def test_a_finished_message_takes_a_later_number(store: Store, orders: str, session: int) -> None:
    before = store.browser.last_finished()
    publish(store)

    settle(store, session, claim(store, session)[0], Verdict.ACCEPT)

    assert store.browser.last_finished() > before
