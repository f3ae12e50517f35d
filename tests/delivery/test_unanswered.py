"""A settlement that was committed, and whose answer was lost, is written again without a warning."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from django_mq.api import publish
from django_mq.delivery.consumer.session import Session
from django_mq.delivery.queues import declare
from django_mq.engine.decisions.verdict import ACCEPT
from django_mq.errors import StoreUnavailable
from django_mq.models import History
from django_mq.notifications.base import Wake
from django_mq.stores.records import ClaimRequest, Settlement
from django_mq.stores.registry import shared_store


def test_a_settlement_whose_answer_was_lost_is_not_reported_as_void(
    committed_database: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(shared_store(committed_database), "orders")
    publish("orders", 1)
    with closing(Wake()) as wake, closing(Session(committed_database, kind="native", wake=wake)) as session:
        [message] = session.settle_and_claim(ClaimRequest(queues=("orders",), credit=1)).claimed
        settle_and_claim = session.store.claims.settle_and_claim

        def commit_and_lose_the_answer(*given: Any) -> None:
            settle_and_claim(*given)
            raise StoreUnavailable

        session.settlements.add(Settlement(message.id, message.claim, ACCEPT))
        with monkeypatch.context() as patch:
            patch.setattr(session.store.claims, "settle_and_claim", commit_and_lose_the_answer)
            with pytest.raises(StoreUnavailable):
                session.settle_and_claim(None)
        session.settle_and_claim(None)

    assert History.objects.using(committed_database).count() == 1
    assert "void" not in caplog.text
