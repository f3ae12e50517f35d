"""The ring of duplicate ids."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.duplicates import DEFAULT_SIZE
from django_mq.inprocess.entries.duplicates import DuplicateIds


def ring(*ids: str, size: int = 3) -> DuplicateIds:
    """A ring to which these were added."""
    duplicates = DuplicateIds(size)
    for each in ids:
        duplicates.add(each)
    return duplicates


def test_the_second_of_two_equal_ids_is_a_duplicate() -> None:
    ids = DuplicateIds()

    assert [ids.add("a"), ids.add("b"), ids.add("a")] == [True, True, False]
    assert "a" in ids
    assert len(ids) == 2


def test_twenty_thousand_are_remembered_if_nothing_is_said() -> None:
    assert DuplicateIds().size == DEFAULT_SIZE == 20_000


def test_a_new_id_overwrites_the_oldest() -> None:
    ids = ring("a", "b", "c")

    ids.add("d")

    assert list(ids) == ["b", "c", "d"]
    assert "a" not in ids
    assert ids.add("a")


def test_a_hit_makes_an_id_no_younger() -> None:
    ids = ring("a", "b", "c")

    ids.add("a")
    ids.add("d")

    assert "a" not in ids


def test_what_was_rolled_back_may_be_published_again() -> None:
    ids = ring("a", "b")

    assert [ids.forget("a"), ids.forget("a"), ids.forget("x")] == [True, False, False]

    assert "a" not in ids
    assert ids.add("a")
    assert list(ids) == ["b", "a"]


def test_a_forgotten_id_leaves_its_room_to_another() -> None:
    ids = ring("a", "b", "c")

    ids.forget("b")
    ids.add("d")

    assert list(ids) == ["a", "c", "d"]


def test_no_size_means_no_duplicates() -> None:
    ids = DuplicateIds(0)

    assert [ids.add("a"), ids.add("a")] == [True, True]
    assert "a" not in ids
    assert len(ids) == 0


def test_a_smaller_ring_forgets_the_oldest() -> None:
    ids = ring("a", "b", "c")

    ids.resize(1)

    assert list(ids) == ["c"]


def test_a_larger_ring_keeps_all_and_takes_more() -> None:
    ids = ring("a", "b", "c")

    ids.resize(4)
    ids.add("d")

    assert list(ids) == ["a", "b", "c", "d"]


def test_a_string_and_its_bytes_are_two_ids() -> None:
    ids = DuplicateIds()

    assert [ids.add("a"), ids.add(b"a")] == [True, True]


@given(st.integers(0, 4), st.lists(st.tuples(st.sampled_from(["add", "forget"]), st.integers(0, 6)), max_size=60))
def test_it_behaves_like_a_short_list(size: int, calls: list[tuple[str, int]]) -> None:
    ids, model = DuplicateIds(size), deque[int](maxlen=size)

    for name, number in calls:
        known = number in model
        if name == "add":
            assert ids.add(number) == (not known)
            model.extend([] if known else [number])
        else:
            assert ids.forget(number) == known
            if known:
                model.remove(number)

        assert list(ids) == list(model)
