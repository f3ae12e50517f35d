"""The vocabularies there are adapters for."""

from tests.scenarios.adapter import Adapter, Json
from tests.scenarios.artemis.adapter import ArtemisAdapter
from tests.scenarios.environment import ENGINE, Environment
from tests.scenarios.errors import MalformedScenarioError
from tests.scenarios.qpid.adapter import QpidAdapter


def adapter_for(vocabulary: Json, environment: Environment = ENGINE) -> Adapter:
    """The adapter that speaks this vocabulary; raises MalformedScenarioError if none does."""
    adapters: tuple[Adapter, ...] = (QpidAdapter(environment), ArtemisAdapter(environment))
    for adapter in adapters:
        if adapter.speaks(vocabulary):
            return adapter
    known = ", ".join(adapter.name for adapter in adapters)
    raise MalformedScenarioError(f"the vocabulary is none of those known: {known}")
