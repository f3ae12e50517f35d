"""Which prefetched messages a worker gives back."""

from django_mq.engine.decisions.recall import surplus


def test_the_last_messages_go_to_free_slots_elsewhere() -> None:
    assert surplus("abcd", "abcd", free_slots=0, free_elsewhere=2) == ["d", "c"]


def test_a_worker_with_a_free_slot_keeps_everything() -> None:
    assert surplus("abcd", "abcd", free_slots=1, free_elsewhere=2) == []


def test_what_came_since_the_last_heartbeat_stays() -> None:
    assert surplus("abcd", "ab", free_slots=0, free_elsewhere=3) == ["b", "a"]


def test_without_a_free_slot_elsewhere_everything_stays() -> None:
    assert surplus("abcd", "abcd", free_slots=0, free_elsewhere=0) == []
