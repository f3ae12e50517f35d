"""What an end is for a member, when a batch ends, and what is published: tables over plain values."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.batches import (
    LIVE,
    BatchCallback,
    BatchCounts,
    BatchState,
    MemberState,
    batch_after,
    callbacks_due,
    may_add,
    member_after,
)
from django_mq.engine.decisions.ends import End, RunOutcome

WAITING, SUCCEEDED, FAILED, CANCELLED = MemberState


@pytest.mark.parametrize(
    ("before", "end", "outcome", "after"),
    [
        (WAITING, End.ACCEPTED, None, SUCCEEDED),
        (WAITING, End.DEAD, None, FAILED),
        (WAITING, End.EXPIRED, None, FAILED),
        (WAITING, End.CANCELLED, None, CANCELLED),
        (WAITING, End.PURGED, None, CANCELLED),
        (WAITING, End.REPLACED, None, CANCELLED),
        (WAITING, End.MOVED, None, WAITING),
        (WAITING, End.RELEASED, None, WAITING),
        (WAITING, End.LOST, None, WAITING),
        (WAITING, End.DEAD_LETTERED, None, WAITING),
        (WAITING, End.ACCEPTED, RunOutcome.SUCCEEDED, SUCCEEDED),
        (WAITING, End.ACCEPTED, RunOutcome.FAILED, FAILED),
        (WAITING, End.ACCEPTED, RunOutcome.LOST, FAILED),
        (WAITING, End.ACCEPTED, RunOutcome.REVOKED, CANCELLED),
        (WAITING, End.ACCEPTED, RunOutcome.RETRIED, WAITING),
        (WAITING, End.ACCEPTED, RunOutcome.FORWARDED, WAITING),
        (FAILED, End.ACCEPTED, RunOutcome.FORWARDED, FAILED),
        (FAILED, End.MOVED, None, WAITING),
        (FAILED, End.ACCEPTED, None, SUCCEEDED),
        (FAILED, End.PURGED, None, FAILED),
        (FAILED, End.EXPIRED, None, FAILED),
        (FAILED, End.ACCEPTED, RunOutcome.RETRIED, WAITING),
        (SUCCEEDED, End.ACCEPTED, RunOutcome.FAILED, SUCCEEDED),
        (SUCCEEDED, End.MOVED, None, SUCCEEDED),
        (CANCELLED, End.ACCEPTED, None, SUCCEEDED),
    ],
)
def test_an_end_says_what_has_become_of_a_member(
    before: MemberState, end: End, outcome: RunOutcome | None, after: MemberState
) -> None:
    assert member_after(before, end, outcome) is after


@pytest.mark.parametrize(
    ("counts", "closed", "cancelled", "state"),
    [
        (BatchCounts(), False, False, BatchState.OPEN),
        (BatchCounts(), True, False, BatchState.SUCCEEDED),
        (BatchCounts(waiting=1, failed=3), True, False, BatchState.RUNNING),
        (BatchCounts(succeeded=2), False, False, BatchState.OPEN),
        (BatchCounts(succeeded=2), True, False, BatchState.SUCCEEDED),
        (BatchCounts(succeeded=2, failed=1, cancelled=1), True, False, BatchState.FAILED),
        (BatchCounts(succeeded=2, cancelled=1), True, False, BatchState.CANCELLED),
        (BatchCounts(succeeded=2, failed=1), True, True, BatchState.CANCELLED),
        (BatchCounts(waiting=1), True, True, BatchState.RUNNING),
    ],
)
def test_a_batch_ends_when_it_is_closed_and_nothing_waits(
    counts: BatchCounts, closed: bool, cancelled: bool, state: BatchState
) -> None:
    assert batch_after(counts, closed=closed, cancelled=cancelled) is state


ENDS = st.tuples(
    st.integers(0, 4),
    st.sampled_from(sorted(End, key=lambda end: end.value)),
    st.sampled_from([None, *RunOutcome]),
)


@given(st.lists(ENDS, max_size=30))
def test_counts_are_those_of_distinct_members_and_each_callback_is_due_once(
    ends: list[tuple[int, End, RunOutcome | None]],
) -> None:
    members = dict.fromkeys(range(5), WAITING)
    published: list[BatchCallback] = []
    for number, end, outcome in ends:
        members[number] = member_after(members[number], end, outcome)
        assert member_after(members[number], end, outcome) in {members[number], WAITING}  # told again
        counts = BatchCounts(*(list(members.values()).count(state) for state in MemberState))
        state = batch_after(counts, closed=True, cancelled=False)
        published += callbacks_due(state, has_failed=counts.failed > 0, published=published)

        assert counts.total == 5
        assert (state in LIVE) == (counts.waiting > 0)
    assert len(published) == len(set(published))
    assert BatchCallback.SUCCESS not in published or BatchCallback.COMPLETE in published


def test_members_come_from_anywhere_until_it_is_closed_and_then_from_members() -> None:
    found = {
        (state, is_member)
        for state, is_member in product(BatchState, (False, True))
        if may_add(state, cancelled=False, is_member=is_member)
    }

    assert found == {(BatchState.OPEN, False), (BatchState.OPEN, True), (BatchState.RUNNING, True)}
    assert not may_add(BatchState.RUNNING, cancelled=True, is_member=True)
