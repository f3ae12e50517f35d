"""Every scenario of the given files and of our own, and the command that runs such files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.__main__ import main
from tests.scenarios.adapter import Check
from tests.scenarios.judging import Verdict, judge
from tests.scenarios.loading import load
from tests.scenarios.qpid.adapter import OPERATIONS, QpidAdapter
from tests.scenarios.qpid.queues import read_queues
from tests.scenarios.qpid.snapshots import QUESTIONS
from tests.scenarios.reporting import line
from tests.scenarios.running import run_scenario
from tests.scenarios.vocabularies import adapter_for

DATA = Path(__file__).parents[1] / "scenarios" / "data"
FILES = sorted(DATA.glob("*.json"))
EVERY = [
    pytest.param(path, scenario, id=f"{path.stem}-{scenario['id']}")  # type: ignore[index]
    for path in FILES
    for scenario in load(path).scenarios
]
PULL = {"op": "pull", "consumer": "c"}
ONE = [{"op": "enqueue", "id": "m"}, {"op": "add_consumer", "id": "c"}, PULL]


@pytest.mark.parametrize(("path", "scenario"), EVERY)
def test_what_is_expected_is_found(path: Path, scenario: Any) -> None:
    verdict = run_scenario(adapter_for(load(path).vocabulary), scenario)
    assert verdict.passed, verdict.difference


def scenario(**parts: Any) -> dict[str, Any]:
    whole = {"id": "S", "setup": {"queues": [{"name": "q"}]}, "steps": ONE, "expect": {}}
    return whole | parts


def run(**parts: Any) -> Verdict:
    return run_scenario(QpidAdapter(), scenario(**parts))


def file(folder: Path, *scenarios: object, **parts: Any) -> str:
    path = folder / "scenarios.json"
    path.write_text(json.dumps({"vocabulary": {"ops": {"pull": ""}}, "scenarios": scenarios} | parts))
    return str(path)


# The command.


def test_the_command_prints_a_line_for_each_scenario_and_a_summary(tmp_path: Path) -> None:
    path = file(tmp_path, scenario(id="A"), scenario(id="B", expect={"deliveries": [["c", "x"]]}))
    command = [sys.executable, "-m", "tests.scenarios", path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=DATA.parents[2])
    assert done.stdout.splitlines() == [
        "A passed",
        "B failed: at the end: deliveries: expected [['c', 'x']], found [['c', 'm']] (first at item 0)",
        "2 scenarios: 1 passed, 1 failed",
    ]
    assert (done.returncode, done.stderr) == (1, "")


def test_the_command_succeeds_if_everything_passes(tmp_path: Path) -> None:
    assert main([file(tmp_path, scenario())]) == 0


def test_the_command_runs_several_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(DATA / "qpid.json"), str(DATA / "own_qpid.json")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" 0 failed")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "{}",
        '{"scenarios": []}',
        '{"scenarios": 7}',
        '{"scenarios": [{}], "vocabulary": {"ops": {}}}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_file_of_no_use_is_a_failure_in_words(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert main([str(path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path} failed: ")


def test_a_file_that_is_not_there_does_not_keep_the_others_from_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nothing.json"), file(tmp_path, scenario(id="A"))]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert "nothing.json failed: cannot be read" in first
    assert second == "A passed"
    assert last == "1 scenarios: 1 passed, 0 failed; files that could not be used: 1"


def test_the_vocabulary_is_told_by_content_even_if_the_file_does_not_say(tmp_path: Path) -> None:
    path = tmp_path / "artemis.json"
    path.write_text(json.dumps([scenario()]))
    assert adapter_for(load(path).vocabulary).name == "qpid"


# What is wrong with a scenario.


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"id": None}, "has no 'id'"),
        ({"steps": None}, "has no 'steps'"),
        ({"steps": [7]}, "step 0 should be an object"),
        ({"steps": [{}]}, "step 0 has no 'op'"),
        ({"steps": [{"op": "dance"}]}, "unknown operation in step 0: 'dance'"),
        ({"steps": [{"op": "enqueue", "id": "m", "colour": 1}]}, "unknown field of step 0: 'colour'"),
        ({"steps": [{"op": "enqueue"}]}, "step 0 has no 'id'"),
        ({"steps": [{"op": "enqueue", "id": "m", "priority": "high"}]}, "'priority' should be a whole number"),
        ({"steps": [{"op": "enqueue", "id": "m", "size": True}]}, "'size' should be a whole number"),
        ({"steps": [{"op": "enqueue", "id": "m", "queue": "x"}]}, "no queue 'x'"),
        ({"steps": [PULL]}, "step 0: there is no consumer 'c'"),
        ({"steps": [{"op": "add_consumer", "id": "c", "start": "middle"}]}, "unknown start 'middle'"),
        ({"steps": [{"op": "add_consumer", "id": "c", "credit": {"mode": "x"}}]}, "unknown mode 'x'"),
        ({"steps": [{"op": "add_consumer", "id": "c", "selector": "= 1"}]}, "MalformedSelector"),
        ({"steps": [{"op": "add_consumer", "id": "c", "queue": "q", "queues": ["q"]}]}, "both"),
        ({"steps": [{"op": "snapshot", "as": "s", "what": ["mood"]}]}, "unknown question 'mood'"),
        ({"steps": [{"op": "snapshot", "as": "s", "what": [1]}]}, "a list of texts"),
        ({"setup": {"queues": []}}, "no queue"),
        ({"setup": {"queues": [{}]}}, "queue 0 has no 'name'"),
        ({"setup": {"queues": [{"name": "q", "colour": 1}]}}, "unknown field of queue 0: 'colour'"),
        ({"setup": {"queues": [{"name": "q", "type": "heap"}]}}, "unknown type 'heap'"),
        ({"setup": {"queues": [{"name": "q", "type": "sorted"}]}}, "ListKeyMissing"),
        ({"expect": {"mood": []}}, "unknown field of the expectation: 'mood'"),
        ({"expect": {"results": [7]}}, "a result is"),
        ({"expect": {"snapshots": {"s": 7}}}, "the snapshot 's' should be"),
        ({"mood": 1}, "unknown field of the scenario: 'mood'"),
        ({"alternative": 7}, "'alternative' should be"),
        ({"alternative": {"expect": {}, "deliveries": []}}, "one set of expectations"),
    ],
)
def test_a_malformed_scenario_fails_with_words(parts: dict[str, Any], words: str) -> None:
    verdict = run(**parts)
    assert not verdict.passed
    assert words in verdict.difference


def test_a_scenario_that_is_no_object_fails_under_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file(tmp_path, 7)]) == 1
    assert capsys.readouterr().out.startswith("number 0 failed: the scenario should be an object")


# Judging.


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ({"deliveries": [["c", "m"], ["c", None]]}, "(first at item 1)"),
        ({"deliveries": []}, "(first at item 0)"),
        ({"results": [[1, "refused"]]}, "results.1: expected 'refused', found 'ok'"),
        ({"results": [[9, "ok"]]}, "results.9: expected 'ok', found 'nothing'"),
        ({"snapshots": {"s": {"order": []}}}, "snapshots.s.order: expected [], found 'nothing'"),
        ({"wakeups": []}, "wakeups"),
        ({"closed": ["c"]}, "closed"),
    ],
)
def test_the_first_difference_is_told(expect: dict[str, Any], words: str) -> None:
    verdict = run(expect=expect)
    assert not verdict.passed
    assert words in verdict.difference


def test_one_is_not_true() -> None:
    assert not judge([Check("here", {"a": True}, {"a": 1})]).passed


def test_what_was_met_is_said_where_there_is_a_choice() -> None:
    other = {"note": "as we like it", "deliveries": [["c", "m"]]}
    assert line("S", run(expect={"deliveries": []}, alternative=other)) == "S passed (alternative)"
    assert line("S", run(expect={"deliveries": []}, alternative={"expect": other})) == "S passed (alternative)"
    assert line("S", run(expect=other, alternative={"deliveries": []})) == "S passed (expect)"
    assert line("S", run(expect=other, alternative="as you like it")) == "S passed (expect)"
    assert line("S", run(expect=other)) == "S passed"


def test_neither_the_expectation_nor_the_alternative_is_met() -> None:
    verdict = run(expect={"deliveries": []}, alternative={"closed": ["c"]})
    assert "nor is the alternative met: closed" in verdict.difference


def test_an_alternative_in_words_excuses_nothing_that_is_no_choice_of_ours() -> None:
    verdict = run(expect={"deliveries": []}, alternative={"note": "as we like it"})
    assert not verdict.passed
    assert "in words only: as we like it" in verdict.difference


def test_the_summary_counts_the_alternatives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: dict[str, Any] = {"deliveries": []}
    right = {"deliveries": [["c", "m"]]}
    assert (
        main(
            [file(tmp_path, scenario(expect=right, alternative=wrong), scenario(expect=wrong, alternative=right))]
        )
        == 0
    )
    summary = capsys.readouterr().out.splitlines()[-1]
    assert summary == "2 scenarios: 2 passed, 0 failed; with an alternative: 1 met expect, 1 the alternative"


def test_a_crash_is_the_failure_of_one_scenario() -> None:
    class Clumsy(QpidAdapter):
        def run(self, scenario: object) -> list[Check]:
            raise ZeroDivisionError("oops")

    assert run_scenario(Clumsy(), scenario()).difference == "ZeroDivisionError: oops"


# The words of Qpid's vocabulary.


def vocabulary() -> dict[str, Any]:
    return json.loads((DATA / "qpid.json").read_text())["vocabulary"]  # type: ignore[no-any-return]


def test_every_operation_of_the_vocabulary_is_known() -> None:
    assert set(OPERATIONS) == set(vocabulary()["ops"]) - {"credit modes"}


def test_every_question_of_the_vocabulary_is_known() -> None:
    assert all(question in vocabulary()["ops"]["snapshot"] for question in QUESTIONS)


def test_every_operation_is_played_by_a_scenario_of_ours() -> None:
    scenarios: Any = load(DATA / "own_qpid.json").scenarios
    assert {step["op"] for each in scenarios for step in each["steps"]} == set(OPERATIONS)


def test_every_attribute_of_a_queue_is_known() -> None:
    from tests.scenarios.fields import Fields

    defaults = dict.fromkeys(vocabulary()["queue_attributes"]) | {"name": "q"}
    assert list(read_queues(Fields({"queues": [defaults]}, "the setup"))) == ["q"]
