"""The page of a queue says which keys share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.diagnosis.state import shares
from django_mq.models import Message, Queue
from tests.admin.conftest import page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

FAIR: dict[str, Any] = {"fair_by": "tenant", "due_order": "keep_place"}
READY = Message.Status.READY


def shown(client: Client, queue: Queue) -> list[tuple[str, int, float]]:
    found = client.get(page_of(queue)).context["shares"]
    return [(share.key, share.waiting, share.weight) for share in found]


def test_keys_are_counted_with_their_weights(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other = make.queue(**FAIR, other_options={"fair_weights": "acme=4\nidle=0.5"}), make.queue("other")
    for tenant, number in {"<b>b</b>": 3, "acme": 2, 7: 1, None: 1}.items():
        for _ in range(number):
            make.message(READY, queue=queue, headers={} if tenant is None else {"tenant": tenant})
    make.message(Message.Status.SCHEDULED, queue=queue, headers={"tenant": "later"})
    make.message(READY, queue=other, headers={"tenant": "elsewhere"})

    page = browse.get(page_of(queue)).content.decode()
    assert shown(browse, queue) == [("<b>b</b>", 3, 1), ("acme", 2, 4), ("", 1, 1), ("7", 1, 1), ("idle", 0, 0.5)]
    assert "&lt;b&gt;b" in page
    assert "without a key" in page
    assert shown(browse, other) == []

    monkeypatch.setattr(shares, "SAMPLE", 4)
    monkeypatch.setattr(shares, "MOST", 2)
    assert shown(browse, queue) == [("<b>b</b>", 3, 1), ("acme", 1, 4)]


@pytest.mark.django_db
def test_a_user_without_messages_sees_no_keys(login_with: Callable[..., Client], make: Make) -> None:
    queue = make.queue(**FAIR)
    make.message(READY, queue=queue, headers={"tenant": "a"})
    assert shown(login_with("view_queue"), queue) == []
