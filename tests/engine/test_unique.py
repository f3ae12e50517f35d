"""Unique messages: what becomes of the second one with a key."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.decisions.unique import (
    First,
    Standing,
    Step,
    Unique,
    UniqueClaim,
    claim_of,
    debounce,
    due_at,
    is_free,
    standing_of,
    step,
)
from django_mq.engine.states import State
from django_mq.errors import InvalidMessage

ID = UUID(int=1)
RULES = st.builds(
    Unique,
    until=st.sampled_from(["begins", "finished"]),
    second=st.sampled_from(["raise", "drop", "replace"]),
    key=st.just("a"),
)


def first(until: str = "finished", *, ends_at: float | None = None) -> First:
    return First(ID, "first", until, 100.0, ends_at)


def claim(rule: Unique, *, owner: str = "second", continues: bool = False) -> UniqueClaim:
    return claim_of(rule, queue="orders", type_="order", owner=owner, arguments={}, continues=continues)


def test_a_message_has_its_key_until_the_moment_its_rule_names() -> None:
    table = [
        (first("begins"), Standing.WAITING, False),
        (first("begins"), Standing.BEGUN, True),
        (first("begins"), Standing.GONE, True),
        (first("finished"), Standing.WAITING, False),
        (first("finished"), Standing.BEGUN, False),
        (first("finished"), Standing.GONE, True),
        # A window goes by its time alone.
        (first("window", ends_at=200.1), Standing.GONE, False),
        (first("window", ends_at=200.0), Standing.WAITING, True),
    ]
    for holder, standing, is_over in table:
        assert is_free(holder.until, holder.ends_at, standing, 200.0) is is_over, (holder, standing)


def test_a_message_that_waits_for_its_next_attempt_has_begun_and_a_dead_one_is_gone() -> None:
    table = [
        (State.SCHEDULED, "", False, Standing.WAITING),
        (State.READY, "", False, Standing.WAITING),
        (State.SCHEDULED, "", True, Standing.BEGUN),
        (State.READY, "", True, Standing.BEGUN),
        (State.CLAIMED, "", False, Standing.BEGUN),
        (State.DEAD, "", True, Standing.GONE),
        (State.READY, "failed", False, Standing.GONE),
    ]
    for state, reason, has_run, standing in table:
        assert standing_of(state, reason, has_run=has_run) is standing, (state, reason, has_run)
    # What has expired runs no more, unless it runs now.
    expired = {State.SCHEDULED: Standing.GONE, State.READY: Standing.GONE, State.CLAIMED: Standing.BEGUN}
    assert {state: standing_of(state, "", has_run=False, has_expired=True) for state in expired} == expired


@given(RULES, st.sampled_from(["begins", "finished"]), st.sampled_from(Standing), st.booleans(), st.booleans())
def test_one_of_two_messages_has_the_key_and_work_that_goes_on_is_never_refused(
    rule: Unique, until: str, standing: Standing, is_same: bool, continues: bool
) -> None:
    holder = first(until)
    mine = claim(rule, owner="first" if is_same else "second", continues=continues)
    found = step(mine, holder, standing, 200.0)
    free = is_free(holder.until, holder.ends_at, standing, 200.0)
    if continues:
        assert found in {Step.CONTINUE, Step.TAKE, Step.PASS}
        assert (found is Step.CONTINUE) is is_same
    else:
        assert (found is Step.TAKE) is free
    if found is Step.REPLACE:
        assert standing is Standing.WAITING
    if found is Step.REFUSE:
        assert rule.second in {"raise", "replace"}


@given(st.lists(st.floats(0, 1000), min_size=1), st.floats(1, 100), st.floats(0, 500))
def test_a_debounced_message_is_due_after_the_quiet_time_and_never_after_the_bound(
    gaps: list[float], quiet: float, more: float
) -> None:
    rule, now = debounce(quiet, at_most_seconds=quiet + more), 0.0
    assert not list(rule.problems())
    for gap in gaps:
        due = due_at(rule, 0.0, now)
        assert due is not None
        assert due <= quiet + more
        assert due == min(now + quiet, quiet + more)
        now += gap


def test_keys_are_equal_for_equal_arguments_in_the_same_scope() -> None:
    def digest(rule: Unique, arguments: object = None, queue: str = "orders", type_: str = "order") -> str:
        return claim_of(rule, queue=queue, type_=type_, owner="", arguments=arguments).digest

    everything, named = Unique(), Unique(arguments=("id",))
    assert digest(everything, {"a": 1, "b": 2}) == digest(everything, {"b": 2, "a": 1})
    assert digest(everything, {"a": 1}) != digest(everything, {"a": 2})
    assert digest(named, {"id": 1, "b": 2}) == digest(named, {"id": 1, "b": 3})
    assert digest(Unique(key="a"), queue="x") != digest(Unique(key="a"), queue="y")
    assert digest(Unique(key="a", within="type"), queue="x") == digest(Unique(key="a", within="type"), queue="y")
    # No key is equal to arguments that look like it.
    assert digest(Unique(key="a")) != digest(everything, "a")
    for rule, arguments, type_ in [(named, {}, ""), (named, [1], ""), (Unique(key="a", within="type"), {}, "")]:
        with pytest.raises(InvalidMessage):
            digest(rule, arguments, type_=type_)


def test_a_rule_that_cannot_be_is_named() -> None:
    table = [
        {"until": "never"},
        {"within": "site"},
        {"second": "fail"},
        {"key": ""},
        {"key": 5},
        {"key": "a", "arguments": ("b",)},
        {"arguments": ()},
        {"arguments": "id"},
        {"replaces": ("queue",)},
        {"until": "window"},
        {"seconds": 5},
        {"until": "window", "seconds": 0},
        {"until": "window", "seconds": float("nan")},
        {"until": "window", "seconds": True},
        {"until": "window", "seconds": 1e12},
        {"wait_seconds": 0},
        {"wait_seconds": 0.0001},
        {"debounce_seconds": 5},
        {"debounce_seconds": 5, "at_most_seconds": 10},
        {"debounce_seconds": 5, "at_most_seconds": 1, "until": "begins", "second": "replace"},
    ]
    for given_ in table:
        assert list(Unique(**given_).problems()), given_  # type: ignore[arg-type]
    assert not list(Unique().problems())
