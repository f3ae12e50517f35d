from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.delivery.consumer.group_lines import GroupLines
from django_mq.errors import OutOfRange
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.groups import AssignedGroups, Groups, SharedGroups, SoleReceiver
from django_mq.inprocess.entries.entry import Entry
from tests.engine.builders import message


class Line:
    """Consumers that walk along a line, and go back only when they are told to."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.entries: list[Entry] = []
        self.last_seen: dict[Consumer, Any] = {}
        self.held: dict[Consumer, list[Entry]] = {}

    def join(self, name: str) -> Consumer:
        consumer = Consumer(name)
        self.last_seen[consumer], self.held[consumer] = (), []
        self.look_again(self.groups.joined(consumer))
        return consumer

    def add(self, group: Any = None, level: int = 0, **headers: Any) -> Entry:
        headers |= {} if group is None else {"g": group}
        arrival = len(self.entries)
        entry = Entry(message(f"{group}{arrival}", headers=headers), arrival=arrival, level=level)
        self.entries.append(entry)
        self.look_again(entry)
        return entry

    def look_again(self, entry: Entry | None) -> None:
        for consumer, position in self.last_seen.items():
            if entry is not None and position >= entry.order:
                self.last_seen[consumer] = (entry.order[0], entry.order[1], entry.order[2] - 1)

    def pull(self, consumer: Consumer) -> Entry | None:
        for entry in sorted(self.entries, key=lambda entry: entry.order):
            if entry.order > self.last_seen[consumer] and entry.state.name == "READY":
                self.last_seen[consumer] = entry.order
                if self.groups.may_take(consumer, entry):
                    return self._take(consumer, entry)
                self.groups.skipped(entry)
        return None

    def _take(self, consumer: Consumer, entry: Entry) -> Entry:
        assert entry.claim(consumer)
        self.held[consumer].append(entry)
        self.groups.taken(consumer, entry)
        self.look_again(self.groups.delivered(consumer, entry))
        return entry

    def accept(self, consumer: Consumer, entry: Entry) -> None:
        self.held[consumer].remove(entry)
        entry.accept(consumer)
        self.groups.gone(entry)
        self.look_again(self.groups.gave_up(consumer, entry))

    def release(self, consumer: Consumer, entry: Entry) -> None:
        self.held[consumer].remove(entry)
        entry.release(consumer)
        self.look_again(entry)
        self.look_again(self.groups.gave_up(consumer, entry))

    def leave(self, consumer: Consumer, *, release_first: bool = True) -> None:
        del self.last_seen[consumer]
        if not release_first:
            self.look_again(self.groups.left(consumer))
        for entry in list(self.held[consumer]):
            self.release(consumer, entry)
        if release_first:
            self.look_again(self.groups.left(consumer))
        del self.held[consumer]


def two_on(groups: Groups) -> tuple[Line, Consumer, Consumer]:
    line = Line(groups)
    return line, line.join("c1"), line.join("c2")


def assigned(**options: Any) -> AssignedGroups:
    return AssignedGroups("g", **options)


def in_group(group: Any) -> Any:
    return message(headers={"g": group})


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("A", "A"),
        ("", ""),
        (7, "7"),
        (1.5, "1.5"),
        (True, "true"),
        (False, "false"),
        (None, None),
        ([], None),
        ({}, None),
    ],
)
def test_a_group_is_the_text_of_a_header(value: object, group: str | None) -> None:
    assert assigned().group_of(in_group(value)) == group


def test_without_the_header_there_is_no_group_or_the_default_group() -> None:
    assert assigned().group_of(message()) is None
    assert SharedGroups("g").group_of(message()) == "no-group"
    assert SharedGroups("g", "rest").group_of(message()) == "rest"


# Assigned groups.


def test_an_assigned_group_stays_with_its_first_consumer_even_when_it_runs_empty() -> None:
    line, c1, c2 = two_on(assigned())
    a1, b1, a2, n1, b2 = (line.add(group) for group in ("A", "B", "A", None, "B"))

    taken = [line.pull(consumer) for consumer in (c1, c2, c2, c1, c2, c2)]
    line.accept(c1, a1)
    line.accept(c1, a2)
    a3 = line.add("A")

    assert taken == [a1, b1, n1, a2, b2, None]
    assert (line.pull(c2), line.pull(c1)) == (None, a3)


def test_asking_changes_nothing() -> None:
    line, c1, c2 = two_on(assigned())
    a1 = line.add("A")

    assert line.groups.may_take(c1, a1)
    assert line.groups.may_take(c2, a1)
    assert line.groups.owners() == {}


def test_taking_tells_whether_a_new_owner_was_found() -> None:
    line, c1, c2 = two_on(assigned())

    firsts = [line.groups.taken(c1, line.add(group)) for group in ("A", "A", "B", None, None)]

    assert firsts == [True, False, True, False, False]
    line.groups.left(c1)
    assert line.groups.taken(c2, line.add("A"))


def test_the_groups_of_a_consumer_that_leaves_go_on_from_the_earliest_skipped() -> None:
    line, c1, c2 = two_on(assigned())
    a1, b1, _, a3 = (line.add(group) for group in "ABAA")
    line.pull(c1)
    line.pull(c1)
    assert line.pull(c2) is None

    line.leave(c1)

    assert [line.pull(c2) for _ in range(4)] == [a1, b1, line.entries[2], a3]
    assert line.groups.owners() == {"A": c2, "B": c2}


@pytest.mark.parametrize("release_first", [True, False])
def test_it_does_not_matter_whether_entries_or_groups_are_given_up_first(release_first: bool) -> None:
    line, c1, c2 = two_on(assigned())
    a1, a2 = line.add("A"), line.add("A")
    line.pull(c1)
    assert line.pull(c2) is None

    line.leave(c1, release_first=release_first)

    assert [line.pull(c2), line.pull(c2)] == [a1, a2]


def test_the_answer_is_the_earliest_that_is_still_ready() -> None:
    line, c1, c2 = two_on(assigned())
    claimed, gone, ready, later = (line.add("A", level) for level in (1, 1, 0, 0))
    line.groups.taken(c1, claimed)
    for entry in (later, ready, gone, claimed):
        line.groups.skipped(entry)
    claimed.claim(c1)
    line.groups.gone(gone)

    assert line.groups.left(c2) is None
    assert line.groups.left(c1) is ready


def test_early_is_what_the_queues_list_says() -> None:
    groups = AssignedGroups("g", position=lambda entry: -entry.arrival)
    line, c1, _ = two_on(groups)
    first, last = line.add("A"), line.add("A")
    groups.taken(c1, first)
    groups.skipped(first)
    groups.skipped(last)

    assert groups.left(c1) is last


def test_closing_a_group_lets_the_next_consumer_own_it() -> None:
    line, c1, c2 = two_on(assigned())
    line.add("A")
    a2, b1 = line.add("A"), line.add("B")
    line.pull(c1)
    line.groups.taken(c1, b1)
    line.pull(c2)

    line.look_again(line.groups.close("A"))

    assert line.pull(c2) is a2
    assert line.groups.owners() == {"A": c2, "B": c1}


def test_closing_a_group_nobody_owns_does_nothing() -> None:
    assert assigned().close("A") is None


def test_a_reset_sets_all_groups_free() -> None:
    line, c1, c2 = two_on(assigned())
    _, _, b2, a2 = (line.add(group) for group in "ABBA")
    line.pull(c1)
    line.pull(c1)
    line.pull(c2)

    assert line.groups.reset() is b2

    line.look_again(b2)
    assert line.groups.owners() == {}
    assert [line.pull(c2), line.pull(c2)] == [b2, a2]


def test_a_newcomer_changes_nothing_unless_groups_are_rebalanced() -> None:
    line, c1, _ = two_on(assigned())
    line.add("A")
    line.pull(c1)

    line.join("c3")

    assert line.groups.owners() == {"A": c1}


def test_every_newcomer_sets_all_groups_free_if_they_are_rebalanced() -> None:
    line, c1, c2 = two_on(AssignedGroups("g", None, True))
    line.add("A")
    a2 = line.add("A")
    line.pull(c1)
    line.pull(c2)

    line.join("c3")

    assert line.pull(c2) is a2


def test_the_last_of_a_group_goes_to_the_owner_and_sets_the_group_free() -> None:
    line, c1, c2 = two_on(assigned(sequence_key="n"))
    line.add("A", n=1)
    last, next_a = line.add("A", n=-1), line.add("A")
    line.pull(c1)
    assert line.pull(c2) is None

    assert line.pull(c1) is last

    assert line.pull(c2) is next_a
    assert line.groups.owners() == {"A": c2}


@pytest.mark.parametrize("number", [-2, 0, "-1", None, True, [-1]])
def test_no_other_number_sets_a_group_free(number: object) -> None:
    line, c1, _ = two_on(assigned(sequence_key="n"))
    line.add("A", n=number)

    line.pull(c1)

    assert line.groups.owners() == {"A": c1}


def test_the_last_of_a_group_means_nothing_unless_it_is_asked_for() -> None:
    line, c1, _ = two_on(assigned())
    line.add("A", n=-1)
    line.add(n=-1)

    line.pull(c1)
    line.pull(c1)

    assert line.groups.owners() == {"A": c1}


def test_the_last_of_a_group_sets_nothing_free_for_another_than_the_owner() -> None:
    line, c1, c2 = two_on(assigned(sequence_key="n"))
    line.groups.taken(c1, line.add("A"))

    assert line.groups.delivered(c2, line.add("A", n=-1)) is None

    assert line.groups.owners() == {"A": c1}


def test_groups_in_one_bucket_share_its_owner_and_one_of_them_names_it() -> None:
    line, c1, c2 = two_on(assigned(buckets=1))
    line.add("A")
    b1 = line.add("B")
    line.pull(c1)

    assert line.pull(c2) is None
    assert line.groups.owners() == {"A": c1}

    line.look_again(line.groups.close("B"))
    assert line.pull(c2) is b1
    assert line.groups.owners() == {"B": c2}


def test_a_group_has_the_same_bucket_in_every_process() -> None:
    # The check value of CRC-32 is 3421780262.
    assert assigned(buckets=1000)._slot("123456789") == 262


def test_a_lone_surrogate_names_a_group_too() -> None:
    line, c1, _ = two_on(assigned(buckets=4))
    line.add("\ud800")

    line.pull(c1)

    assert line.groups.owners() == {"\ud800": c1}


def test_there_are_never_more_owners_than_buckets() -> None:
    line, c1, _ = two_on(assigned(buckets=4))

    for number in range(100):
        line.groups.taken(c1, line.add(f"group {number}"))

    assert len(line.groups.owners()) == 4


@pytest.mark.parametrize("buckets", [0, -1])
def test_there_is_at_least_one_bucket(buckets: int) -> None:
    with pytest.raises(OutOfRange, match="at least one bucket"):
        assigned(buckets=buckets)


# Shared groups.


def test_a_shared_group_may_move_on_once_its_owner_holds_nothing_of_it() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1, b1, a2 = (line.add(group) for group in "ABA")

    taken = [line.pull(consumer) for consumer in (c1, c2, c2)]
    line.accept(c1, a1)

    assert taken == [a1, b1, None]
    assert line.pull(c2) is a2


def test_a_shared_group_stays_while_anything_of_it_is_held() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1, a2, a3 = (line.add("A") for _ in range(3))
    line.pull(c1)
    line.pull(c1)

    line.accept(c1, a1)
    assert line.pull(c2) is None
    line.accept(c1, a2)
    assert line.pull(c2) is a3


def test_what_was_given_back_comes_first_for_the_next_owner() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1, a2, a3 = (line.add("A") for _ in range(3))
    line.pull(c1)
    line.pull(c1)
    assert line.pull(c2) is None

    line.release(c1, a1)
    assert line.pull(c2) is None
    line.release(c1, a2)

    assert [line.pull(c2) for _ in range(3)] == [a1, a2, a3]


def test_what_was_given_back_is_answered_though_nobody_skipped_it() -> None:
    line, c1, _ = two_on(SharedGroups("g"))
    a1 = line.add("A")
    line.pull(c1)
    a1.decline(c1)

    assert line.groups.gave_up(c1, a1) is a1


def test_messages_without_a_group_are_a_group() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    line.add()
    line.add()
    line.pull(c1)

    assert line.pull(c2) is None
    assert line.groups.owners() == {"no-group": c1}


def test_giving_up_twice_counts_once() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1, a2 = line.add("A"), line.add("A")
    line.pull(c1)
    line.pull(c1)
    line.accept(c1, a1)

    assert line.groups.gave_up(c1, a1) is None
    assert not line.groups.may_take(c2, a2)


def test_what_an_earlier_owner_gives_up_does_not_count() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1, a2 = line.add("A"), line.add("A")
    line.pull(c1)
    line.pull(c2)
    line.look_again(line.groups.close("A"))
    assert line.pull(c2) is a2

    line.release(c1, a1)

    assert line.groups.owners() == {"A": c2}
    assert line.pull(c1) is None
    line.accept(c2, a2)
    assert line.pull(c1) is a1


def test_what_goes_to_another_than_the_owner_does_not_prolong_the_ownership() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1, a2 = line.add("A"), line.add("A")
    line.pull(c1)

    line.groups.taken(c2, a2)
    line.accept(c1, a1)

    assert line.groups.owners() == {}


def test_a_former_owner_that_gives_up_late_does_not_free_the_group() -> None:
    line, c1, c2 = two_on(SharedGroups("g"))
    a1 = line.add("A")
    line.groups.taken(c1, a1)
    line.groups.close("A")
    line.groups.taken(c2, a1)

    line.groups.gave_up(c1, a1)

    assert line.groups.owners() == {"A": c2}


def test_a_shared_group_that_is_free_is_forgotten() -> None:
    line, c1, _ = two_on(SharedGroups("g"))

    for number in range(10):
        line.add(f"group {number}")
        entry = line.pull(c1)
        assert entry is not None
        line.accept(c1, entry)

    assert line.groups._owned == {}


# A sole receiver.


def test_a_sole_receiver_has_the_queue_until_it_leaves() -> None:
    line, c1, c2 = two_on(SoleReceiver())
    first, second = line.add("A"), line.add()

    assert [line.pull(c1), line.pull(c2)] == [first, None]
    line.accept(c1, first)
    line.leave(c1)

    assert line.pull(c2) is second
    assert line.groups.owners() == {"everything": c2}


def test_a_sole_receivers_own_entries_come_first_for_the_next() -> None:
    line, c1, c2 = two_on(SoleReceiver())
    a, b, c = line.add(), line.add(), line.add()
    line.pull(c1)
    line.pull(c1)
    line.pull(c2)

    line.leave(c1)

    assert [line.pull(c2) for _ in range(3)] == [a, b, c]


# All of them.

ALL: dict[str, Callable[[], Groups]] = {
    "assigned": assigned,
    "in buckets": lambda: assigned(buckets=2),
    "rebalanced": lambda: assigned(rebalance=True),
    "closing": lambda: assigned(sequence_key="n"),
    "shared": lambda: SharedGroups("g"),
    "sole": SoleReceiver,
}


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind != "sole"])
def test_a_busy_owner_blocks_no_other_group(kind: str) -> None:
    line, c1, c2 = two_on(ALL[kind]())
    for group in ("A", "A", "D", "E"):
        line.add(group)
    line.pull(c1)

    taken = line.pull(c2)

    assert taken is not None
    assert taken.message.headers["g"] in ("D", "E")


@pytest.mark.parametrize("kind", ALL)
def test_what_is_gone_is_not_remembered(kind: str) -> None:
    line, c1, c2 = two_on(ALL[kind]())
    line.add("A")
    skipped = line.add("A")
    line.pull(c1)
    line.pull(c2)

    skipped.discard()
    line.groups.gone(skipped)

    assert all(skipped not in owned.skipped for owned in line.groups._owned.values())
    assert line.groups.left(c1) is None


STEPS = st.tuples(
    st.sampled_from(["add", "add", "pull", "pull", "accept", "release", "move", "close", "reset"]),
    st.sampled_from(["A", "B", "C", None]),
    st.integers(0, 5),
)


def play(line: Line, step: str, group: str | None, number: int) -> None:
    consumers = list(line.held)
    consumer = consumers[number % len(consumers)]
    held = line.held[consumer]
    if step == "add":
        line.add(group, number % 2, n=-1 if number == 5 else number)
    elif step == "pull":
        line.pull(consumer)
    elif step == "move":
        line.leave(consumer, release_first=number % 2 == 0)
        line.join(f"after {consumer.name}")
    elif step == "close":
        line.look_again(line.groups.close(group or "no-group"))
    elif step == "reset":
        line.look_again(line.groups.reset())
    elif held:
        {"accept": line.accept, "release": line.release}[step](consumer, held[number % len(held)])


def finish(line: Line) -> None:
    """Pull and accept until nothing comes."""
    busy = True
    while busy:
        busy = False
        for consumer, held in line.held.items():
            while line.pull(consumer) is not None:
                busy = True
            for entry in list(held):
                line.accept(consumer, entry)
                busy = True


@pytest.mark.parametrize("kind", ALL)
@given(steps=st.lists(STEPS, max_size=40))
def test_no_entry_is_left_behind_by_consumers_that_passed_it(
    kind: str, steps: list[tuple[str, str | None, int]]
) -> None:
    line = Line(ALL[kind]())
    for name in ("c1", "c2", "c3"):
        line.join(name)

    for step in steps:
        play(line, *step)
    finish(line)

    assert [entry for entry in line.entries if entry.state.name != "GONE"] == []
    assert all(not owned.held and not owned.skipped for owned in line.groups._owned.values())


@given(steps=st.lists(STEPS.filter(lambda step: step[0] not in ("close", "reset")), max_size=40))
def test_a_shared_group_is_never_in_two_hands(steps: list[tuple[str, str | None, int]]) -> None:
    line = Line(SharedGroups("g"))
    for name in ("c1", "c2", "c3"):
        line.join(name)

    for step in steps:
        play(line, *step)

        in_hand = {line.groups.group_of(entry.message): {entry.owner} for entry in line.entries if entry.owner}
        for entry in line.entries:
            if entry.owner:
                assert in_hand[line.groups.group_of(entry.message)] == {entry.owner}
        assert {group: {owner} for group, owner in line.groups.owners().items()} == in_hand


def test_one_message_of_each_group_begins_and_the_others_follow_in_order() -> None:
    lines: GroupLines[str] = GroupLines()

    entered = [lines.enter(group, order, f"{group}{order}") for group, order in (("a", 3), ("b", 4), ("a", 5))]
    entered.append(lines.enter("a", 1, "a1"))

    assert (entered, len(lines)) == ([True, True, False, False], 2)
    assert [lines.leave(group) for group in "abaa"] == ["a1", None, "a5", None]
    assert lines.enter("a", 6, "a6")
    assert len(lines) == 0


def test_a_closed_group_gives_up_what_waits_and_no_other() -> None:
    lines: GroupLines[str] = GroupLines()
    for order, name in enumerate(["a0", "a1", "b2", "b3", "a4"]):
        lines.enter(name[0], order, name)

    assert (lines.close("a"), lines.close("c"), lines.closed, len(lines)) == (["a1", "a4"], [], {"a", "c"}, 1)
    assert (lines.leave("a"), lines.empty(), len(lines)) == (None, ["b3"], 0)
