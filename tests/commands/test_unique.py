"""mq_unique: the keys that messages hold; and mq_publish with a key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from django_mq.delivery.queues import declare
from django_mq.models import Message
from django_mq.stores.registry import shared_store

if TYPE_CHECKING:
    from tests.commands.conftest import Run


@pytest.mark.django_db
def test_a_key_that_a_message_holds_is_shown_and_freed(run: Run) -> None:
    declare(shared_store("default"), "orders")
    first = run("mq_publish", "orders", "1", "--unique", "a").strip()
    with pytest.raises(CommandError, match="'a' is taken"):
        run("mq_publish", "orders", "2", "--unique", "a")
    assert run("mq_publish", "orders", "2", "--unique", "a", "--second", "drop").strip() == first

    assert first in run("mq_unique")
    [key] = json.loads(run("mq_unique", "a", "--json"))
    assert (key["key"], key["until"], key["message_id"]) == ("a", "finished", first)
    assert run("mq_unique", "a", "--free") == "1 key freed.\n"
    assert run("mq_unique") == "No key is held.\n"
    run("mq_publish", "orders", "2", "--unique", "a")
    assert Message.objects.count() == 2
    with pytest.raises(CommandError, match="Give the KEY"):
        run("mq_unique", "--free")
