"""The vocabularies there are adapters for."""

from tests.scenarios.adapter import Adapter, Json
from tests.scenarios.artemis.adapter import ArtemisAdapter
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.qpid.adapter import QpidAdapter

ADAPTERS: tuple[Adapter, ...] = (QpidAdapter(), ArtemisAdapter())


def adapter_for(vocabulary: Json) -> Adapter:
    """The adapter that speaks this vocabulary; raises MalformedScenarioError if none does."""
    for adapter in ADAPTERS:
        if adapter.speaks(vocabulary):
            return adapter
    known = ", ".join(adapter.name for adapter in ADAPTERS)
    raise MalformedScenarioError(f"the vocabulary is none of those known: {known}")
