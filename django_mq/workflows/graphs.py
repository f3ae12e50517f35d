"""The graph of a workflow as its row has it: JSON, and a version that tells it from other graphs."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django_mq.engine.decisions.workflows import Graph, RunsOn, StepRule

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The fields of a rule whose defaults are left out.
FIELDS = (
    "name",
    "after",
    "runs_on",
    "queue",
    "workflow",
    "for_each",
    "compensate",
    "has_condition",
    "has_body",
    "options",
)


def written_graph(rules: Sequence[StepRule]) -> str:
    """Return a graph as a row has it."""
    usual = StepRule(name="")
    return json.dumps([_fields(rule, usual) for rule in rules], separators=(",", ":"))


def _fields(rule: StepRule, usual: StepRule) -> dict[str, Any]:
    values = {name: getattr(rule, name) for name in FIELDS}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def version_of(graph: str) -> str:
    """Return what tells this graph from others."""
    return hashlib.blake2b(graph.encode(), digest_size=6).hexdigest()


@lru_cache(maxsize=128)
def graph_in(text: str) -> Graph:
    """Return the graph that was written so."""
    return Graph(tuple(_rule(values) for values in json.loads(text)))


def _rule(values: dict[str, Any]) -> StepRule:
    known = {name: value for name, value in values.items() if name in FIELDS}
    known["after"] = tuple(known.get("after", ()))
    known["runs_on"] = RunsOn(known.get("runs_on", RunsOn.SUCCESS))
    return StepRule(**known)
