"""Message ids are UUIDs of version 7, however they are made."""

from __future__ import annotations

import copy
import pickle
import time
from uuid import UUID

import pytest

from django_mq.delivery.codecs import from_value, new_message_id, new_message_ids, new_uuids


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


def test_an_id_is_of_version_7_and_says_when_it_was_made() -> None:
    before = milliseconds()

    made = [new_message_id(), *new_uuids(50), *(UUID(bytes=id_) for id_ in new_message_ids(50))]

    after = milliseconds()
    assert {(id_.version, id_.variant) for id_ in made} == {(7, UUID(int=0x2 << 62).variant)}
    assert all(before <= id_.int >> 80 <= after for id_ in made)
    assert len(set(made)) == 101


@pytest.mark.parametrize("value", [0, 1, 0x017F22E2_79B0_7CC3_98C4_DC0C0C07398F, 2**128 - 1])
def test_an_id_made_of_its_value_is_the_uuid_of_that_value(value: int) -> None:
    made, usual = from_value(value), UUID(int=value)

    assert type(made) is UUID
    assert (made, hash(made), str(made), made.bytes, made.is_safe) == (
        (usual, hash(usual), str(usual), usual.bytes, usual.is_safe)
    )
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == usual
    with pytest.raises(TypeError):
        made.int = 5  # type: ignore[misc]
