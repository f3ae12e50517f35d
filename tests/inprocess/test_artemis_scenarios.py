"""The words of Artemis' vocabulary, and what its alternatives excuse."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.inprocess.test_scenarios import DATA
from tests.scenarios.artemis.adapter import EXPECT, OPERATIONS, ArtemisAdapter
from tests.scenarios.artemis.choices import CHOICES
from tests.scenarios.artemis.expectations import COUNTS, LOOKS
from tests.scenarios.artemis.queues import read_durable, read_rules
from tests.scenarios.fields import Fields
from tests.scenarios.judging import Verdict
from tests.scenarios.loading import load
from tests.scenarios.reporting import line
from tests.scenarios.running import run_scenario
from tests.scenarios.vocabularies import adapter_for

if TYPE_CHECKING:
    from pathlib import Path

SEND: Any = {"op": "enqueue", "id": "m"}
SOONER: Any = {"op": "enqueue", "id": "n", "deliver_at": 1}
LATER: Any = {"op": "enqueue", "id": "o", "deliver_at": 2}
PASS: Any = {"op": "advance_clock", "to": 9}
JOIN: Any = {"op": "add_consumer", "consumer": "c"}
ONE_BY_ONE: Any = {"ready": {"q": ["o", "n"]}}
IN_DUE_ORDER: Any = {"ready": {"q": ["n", "o"]}}


def push(*steps: Any, **parts: Any) -> Verdict:
    whole = {"id": "S", "setup": {"queues": {"q": {}}}, "steps": list(steps), "expect": {}} | parts
    return run_scenario(ArtemisAdapter(), whole)


def vocabulary() -> dict[str, Any]:
    return json.loads((DATA / "artemis.json").read_text())["vocabulary"]  # type: ignore[no-any-return]


def test_every_operation_is_known_and_played_by_a_scenario_of_ours() -> None:
    words = {*re.findall(r"\w+", " ".join(vocabulary()["ops"])), "reset_groups"}
    scenarios: Any = load(DATA / "own_artemis.json").scenarios

    assert words == {*OPERATIONS, EXPECT}
    assert {step["op"] for each in scenarios for step in each["steps"]} == words


def test_everything_that_can_be_expected_is_known() -> None:
    keys = vocabulary()["expect_keys"]

    assert set(keys) == set(LOOKS)
    assert set(COUNTS) == set(re.findall(r"[a-z_]+", keys["counts"])) - {"since", "the", "last", "restart"}


def test_every_setting_is_known_and_is_what_the_vocabulary_says_if_it_is_not_set() -> None:
    values = {"true": True, "false": False, "none": None, "-1": -1, "0": 0, "10": 10, "1.0": 1.0, "20000": 20000}
    text = vocabulary()["conventions"]["queue_defaults"].replace("no dead_letter_queue, no expiry_queue, ", "")
    words = [default.rstrip(".").split() for default in text.split(", ")]
    defaults = {name: values[value] for name, value, *_ in words if value in values}
    fields = Fields(defaults, "the defaults")
    read_durable(fields)

    assert len(defaults) == len(words) - 1  # the longest delay is a sum
    assert read_rules(fields) == read_rules(Fields({}, "nothing"))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{"op": "explode"}], "unknown operation 'explode'"),
        ([SEND | {"colour": "red"}], "unknown field of step 0 (enqueue): 'colour'"),
        ([SEND | {"priority": 10}], "a priority lies in 0..9"),
        ([SEND | {"priority": "high"}], "'priority' should be a whole number"),
        ([SEND | {"queue": "r"}], "there is no queue 'r'"),
        ([SEND | {"tx": "t"}], "the unit of work 't' was not begun"),
        ([{"op": "ack", "consumer": "c", "ids": []}], "there is no consumer 'c'"),
        ([JOIN, JOIN], "there is a consumer 'c' already"),
        ([JOIN | {"selector": {"header": "h"}}], "neither 'equals' nor 'in'"),
        ([JOIN | {"selector": {"header": "h", "equals": []}}], "equals a scalar"),
        ([{"op": "begin", "tx": "t"}] * 2, "the unit of work 't' is open already"),
        ([{"op": "advance_clock", "to": -1}], "the clock stands at 0.0 already"),
        ([PASS | {"mode": "crawl"}], "unknown mode 'crawl'"),
        ([{"op": "wake_timer_early", "at": 5, "timer": 5}], "is not early"),
        ([{"op": "deliver_scheduled_now"}], "one of 'id', 'selector' and 'all'"),
        ([{"op": "set", "settings": {"last_value": True}}], "keeps its kind"),
        ([{"op": "set", "settings": {"ring_size": 1, "max_messages": 2, "full_policy": "FAIL"}}], "not both"),
        ([{"op": "set", "settings": {"full_policy": "WAIT"}}], "unknown full_policy 'WAIT'"),
        ([{"op": "remove_queue"}, {"op": "pause"}], "the queue 'q' was removed"),
        ([SEND, {"op": "change_priority", "id": "m", "priority": 11}], "A priority lies in 0..9"),
        ([{"op": EXPECT, "mood": {}}], "unknown field of step 0 (expect): 'mood'"),
        ([{"op": EXPECT, "counts": {"q": {"lost": 1}}}], "unknown count 'lost'"),
        ([SEND | {"expect_result": "full"}], "expect_result: expected 'full', found 'ok'"),
        ([SEND, {"op": "pause", "expect_result": True}], "expect_result: expected True, found 'ok'"),
    ],
)
def test_a_scenario_that_cannot_be_read_or_met_fails_with_words(steps: Any, words: str) -> None:
    verdict = push(*steps)

    assert not verdict.passed
    assert words in verdict.difference


def test_who_settles_what_it_does_not_hold_is_told() -> None:
    late = {"op": "ack", "consumer": "c", "ids": ["m"]}

    assert push(SEND, JOIN, late | {"expect_result": "ok"}, late | {"expect_result": "unknown"}).passed
    assert push(SEND, JOIN, {"op": "restart"}, late, expect={"ready": {"q": ["m"]}}).passed


def test_an_alternative_in_words_is_met_by_a_documented_choice() -> None:
    note = {"note": "due order"}
    verdict = push(SOONER, LATER, PASS, expect=ONE_BY_ONE, alternative=note)

    assert line("S", verdict).startswith("S passed (alternative): at the end: ready.q: expected ['o', 'n']")
    assert "our choice: due messages stand in due order" in verdict.difference
    assert push(SOONER, LATER, PASS, expect=IN_DUE_ORDER, alternative=note) == Verdict(passed=True, met="expect")


def test_words_excuse_nothing_where_we_have_made_no_choice() -> None:
    assert not push(SEND, expect={"ready": {"q": []}}, alternative={"note": "none"}).passed


def test_an_alternative_of_the_whole_excuses_what_was_expected_on_the_way() -> None:
    steps = [SOONER, LATER, PASS, {"op": EXPECT} | ONE_BY_ONE]

    assert push(*steps, expect=ONE_BY_ONE, alternative=IN_DUE_ORDER).met == "alternative"
    assert push(*steps, expect=IN_DUE_ORDER, alternative={"note": "due order"}).met == "alternative"
    assert not push(*steps, expect=IN_DUE_ORDER).passed
    assert not push(*steps, expect=ONE_BY_ONE, alternative={"ready": {"q": []}}).passed


def test_a_remark_in_an_alternative_is_no_expectation() -> None:
    other = {"why": "so", "ready": {"q": []}}

    assert push(SEND, expect={"ready": {"q": ["m"]}}, alternative=other).met == "expect"
    assert push(SEND, expect={"ready": {"q": ["n"]}}, alternative={"why": "so"}).passed is False


def test_a_file_without_a_vocabulary_is_known_by_its_operations(tmp_path: Path) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps([{"id": "S", "steps": [SEND, {"op": "remove_consumer", "consumer": "c"}]}]))

    assert adapter_for(load(path).vocabulary).name == "artemis"


def test_the_decision_note_has_every_choice() -> None:
    note = (DATA.parents[2] / "docs" / "decisions" / "0021-scenario-choices.md").read_text()
    table = note.partition("| feature | words |")[2].partition("\n\n")[0].splitlines()[2:]
    documented = [frozenset(re.findall(r"`(\w+)`", row.split("|")[2])) for row in table]

    assert sorted(map(sorted, documented)) == sorted(map(sorted, CHOICES.values()))
