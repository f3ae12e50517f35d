from dataclasses import FrozenInstanceError

import pytest

from django_mq.engine.message import Message


def test_a_message_needs_only_an_id_and_has_priority_four() -> None:
    message = Message(id="m")

    assert (message.priority, message.size, dict(message.headers)) == (4, 0, {})


def test_a_message_cannot_be_changed() -> None:
    message = Message(id="m")

    with pytest.raises(FrozenInstanceError):
        message.priority = 9  # type: ignore[misc]


def test_the_empty_headers_all_messages_share_cannot_be_written() -> None:
    headers = Message(id="m").headers

    with pytest.raises(TypeError):
        headers["k"] = "v"  # type: ignore[index]
