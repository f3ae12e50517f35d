"""From what a scenario expects, and from what was found, to flat paths."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.fields import Fields

if TYPE_CHECKING:
    from tests.scenarios.adapter import Json
    from tests.scenarios.qpid.stage import Stage


def flatten(expect: "Json") -> dict[str, Any]:
    """An expectation by path; raises a ScenarioError for a key that means nothing."""
    fields = Fields(expect, "the expectation")
    paths: dict[str, Any] = {}
    for result in fields.want("results", list, []):
        index, value = _pair(result)
        paths[f"results.{index}"] = value
    for name, snapshot in fields.want("snapshots", dict, {}).items():
        paths.update(_answers(name, snapshot))
    for name in ("deliveries", "wakeups", "closed"):
        value = fields.want(name, list, None)
        if value is not None:
            paths[name] = value
    fields.want("note", str, None)
    fields.finish()
    return paths


def _pair(result: object) -> tuple[int, Any]:
    if not isinstance(result, list) or len(result) != 2 or not isinstance(result[0], int):
        raise MalformedScenarioError(f"a result is a step's index and a value, not {result!r}")
    return result[0], result[1]


def _answers(name: str, snapshot: object) -> dict[str, Any]:
    if not isinstance(snapshot, dict):
        raise MalformedScenarioError(f"the snapshot {name!r} should be an object, not {snapshot!r}")
    return {f"snapshots.{name}.{question}": answer for question, answer in snapshot.items()}


def found(stage: "Stage", results: Sequence[object]) -> dict[str, Any]:
    """Everything that can be expected, by path."""
    paths: dict[str, Any] = {f"results.{index}": result for index, result in enumerate(results)}
    for name, snapshot in stage.snapshots.items():
        paths.update(_answers(name, snapshot))
    paths.update(deliveries=stage.deliveries, wakeups=stage.wakeups, closed=stage.closed)
    return paths
