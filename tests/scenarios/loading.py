"""Reads a file of scenarios."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.adapter import Json, Scenario
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.fields import Fields


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """The scenarios of a file, unread, and the vocabulary they are written in."""

    vocabulary: Json
    scenarios: list[object]


def load(path: Path) -> ScenarioFile:
    """Read a file; raises MalformedScenarioError if it does not hold what it should."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MalformedScenarioError(f"cannot be read: {error}") from error
    fields = Fields({"scenarios": content} if isinstance(content, list) else content, "the file")
    scenarios = fields.need("scenarios", list)
    vocabulary = fields.want("vocabulary", dict, None)
    if not scenarios:
        raise MalformedScenarioError("the file holds no scenario")
    return ScenarioFile({"ops": _words_used(scenarios)} if vocabulary is None else vocabulary, scenarios)


def _words_used(scenarios: list[object]) -> dict[str, str]:
    """The operations of scenarios that come without a vocabulary."""
    lists = [each.get("steps") for each in scenarios if isinstance(each, dict)]
    steps = [step for each in lists if isinstance(each, list) for step in each if isinstance(step, dict)]
    return {str(step.get("op")): "" for step in steps}


def name_of(value: object, position: int) -> str:
    """The scenario's id; its position in the file if it has none."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else f"number {position}"


def read_scenario(value: object) -> Scenario:
    """One scenario; raises a ScenarioError unless it has all parts, of the right types."""
    fields = Fields(value, "the scenario")
    steps = fields.need("steps", list)
    for index, step in enumerate(steps):
        Fields(step, f"step {index}").need("op", str)
    for remark in ("source", "note"):
        fields.want(remark, object, None)
    scenario = Scenario(
        id=fields.need("id", str),
        feature=fields.want("feature", str, ""),
        setup=fields.want("setup", dict, {}),
        steps=steps,
        expect=fields.want("expect", dict, {}),
        alternative=fields.want("alternative", object, None),
    )
    fields.finish()
    return scenario
