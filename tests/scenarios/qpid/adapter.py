"""Plays a scenario step by step, and answers what was found."""

from typing import TYPE_CHECKING, Final

from tests.scenarios.adapter import Check, Json, Scenario
from tests.scenarios.alternatives import read_alternative
from tests.scenarios.environment import ENGINE, Environment
from tests.scenarios.errors import UnknownWordError
from tests.scenarios.fields import Fields
from tests.scenarios.qpid import consuming, publishing, settling, steering
from tests.scenarios.qpid.expectations import flatten, found
from tests.scenarios.qpid.queues import read_queues
from tests.scenarios.qpid.snapshots import snapshot
from tests.scenarios.qpid.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

#: From the word to what it does; the answer is the step's result.
OPERATIONS: "Final[dict[str, Callable[[Stage, Fields], object]]]" = {
    operation.__name__: operation
    for operation in (
        publishing.enqueue,
        consuming.add_consumer,
        consuming.pull,
        consuming.drain,
        consuming.close_consumer,
        consuming.pause_consumer,
        consuming.resume_consumer,
        consuming.add_credit,
        consuming.stop_credit,
        consuming.set_prefetch,
        settling.ack,
        settling.release,
        settling.fail,
        settling.reject,
        settling.decline,
        settling.begin_settle,
        steering.advance_clock,
        steering.housekeeping,
        steering.purge,
        steering.delete_queue,
        steering.delete_message,
        steering.reprioritise,
        steering.move,
        steering.clear_wakeups,
        snapshot,
    )
}


class QpidAdapter:
    """Translates the words of this vocabulary."""

    name = "qpid"

    def __init__(self, environment: Environment = ENGINE) -> None:
        self._environment = environment

    def speaks(self, vocabulary: Json) -> bool:
        """Only in this vocabulary, consumers pull."""
        operations = vocabulary.get("ops", {})
        return "pull" in operations or "drain" in operations

    def run(self, scenario: Scenario) -> list[Check]:
        """Play the scenario; what it expects is all expected at its end."""
        stage = Stage(read_queues(Fields(scenario.setup, "the setup")), self._environment)
        results = [_play(stage, index, step) for index, step in enumerate(scenario.steps)]
        stated, note = read_alternative(scenario.alternative, "the scenario")
        alternative = None if stated is None else flatten(stated)
        return [Check("at the end", flatten(scenario.expect), found(stage, results), alternative, note)]


def _play(stage: Stage, index: int, values: Json) -> object:
    step = Fields(values, f"step {index}")
    operation = step.need("op", str)
    if operation not in OPERATIONS:
        raise UnknownWordError(f"operation in step {index}:", operation, OPERATIONS)
    step.want("note", str, None)
    result = OPERATIONS[operation](stage, step)
    step.finish()
    return result
