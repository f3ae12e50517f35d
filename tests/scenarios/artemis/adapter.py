"""Plays a scenario step by step, and looks whenever something is expected."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from django_mq.errors import MQError
from tests.scenarios.adapter import Check, Json, Scenario
from tests.scenarios.alternatives import read_alternative
from tests.scenarios.artemis import consuming, publishing, restarting, steering, time
from tests.scenarios.artemis.choices import choices_in
from tests.scenarios.artemis.expectations import Path, flatten, look
from tests.scenarios.artemis.stage import Stage
from tests.scenarios.environment import ENGINE, Environment
from tests.scenarios.errors import MalformedScenarioError, UnknownWordError
from tests.scenarios.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Callable

#: From the word to what it does; the answer is the step's result, where it has one.
OPERATIONS: "Final[dict[str, Callable[[Stage, Fields], object]]]" = {
    "enqueue": publishing.enqueue,
    "begin": publishing.begin,
    "commit": publishing.commit,
    "rollback_tx": publishing.rollback_tx,
    "add_consumer": consuming.add_consumer,
    "remove_consumer": consuming.remove_consumer,
    "grant_credit": consuming.grant_credit,
    "ack": consuming.ack,
    "rollback": consuming.rollback,
    "release": consuming.release,
    "reject": consuming.reject,
    "advance_clock": time.advance_clock,
    "wake_timer_early": time.wake_timer_early,
    "restart": restarting.restart,
    "pause": steering.pause,
    "resume": steering.resume,
    "deliver_scheduled_now": steering.deliver_scheduled_now,
    "cancel_scheduled": steering.cancel_scheduled,
    "expire_scan": steering.expire_scan,
    "change_priority": steering.change_priority,
    "retry_dead_letters": steering.retry_dead_letters,
    "set": steering.set_settings,
    "remove_queue": steering.remove_queue,
    "reset_groups": steering.reset_groups,
}

#: The operation that only looks.
EXPECT: Final = "expect"

#: What stands in a step besides its operation's own fields.
RESULT: Final = "expect_result"
REMARKS: Final = frozenset({"note", "source", "comment"})


class ArtemisAdapter:
    """Translates the words of this vocabulary."""

    name = "artemis"

    def __init__(self, environment: Environment = ENGINE) -> None:
        self._environment = environment

    def speaks(self, vocabulary: Json) -> bool:
        """Return whether its scenarios expect deliveries that no consumer has asked for: only Artemis' do."""
        words = {word for key in vocabulary.get("ops", {}) for word in key.split(" / ")}
        return EXPECT in words or "grant_credit" in words or "remove_consumer" in words

    def run(self, scenario: Scenario) -> list[Check]:
        """Play the scenario; what is expected may be expected at any step."""
        stage = Stage(Fields(scenario.setup, "the setup"), self._environment)
        checks = [_play(stage, index, step) for index, step in enumerate(scenario.steps)]
        last = _check(stage, "at the end", scenario.expect, scenario.alternative)
        # Words about the whole scenario are about what was expected on the way, too.
        note = last.note if last.alternative is None else ""
        choices = choices_in(scenario)
        on_the_way = [replace(each, choices=choices, note=each.note or note) for each in filter(None, checks)]
        return [*on_the_way, replace(last, choices=choices, whole=True)]


def _play(stage: Stage, index: int, values: Json) -> Check | None:
    operation = values["op"]
    where = f"step {index} ({operation})"
    own = {name: value for name, value in values.items() if name not in REMARKS and name != "op"}
    alternative = own.pop("alternative", None)
    if operation == EXPECT:
        return _check(stage, where, own, alternative)
    expected = {RESULT: own.pop(RESULT)} if RESULT in own else {}
    found = {RESULT: _perform(stage, operation, Fields(own, where))}
    stage.settle()
    stated, note = read_alternative(alternative, where)
    results = [stated[name] for name in (RESULT, "result") if stated is not None and name in stated]
    return Check(where, expected, found, {RESULT: results[0]} if results else None, note) if expected else None


def _perform(stage: Stage, operation: str, step: Fields) -> object:
    if operation not in OPERATIONS:
        raise UnknownWordError("operation", operation, {*OPERATIONS, EXPECT})
    try:
        result = OPERATIONS[operation](stage, step)
    except MQError as error:
        raise MalformedScenarioError(f"{step.where}: {error}") from error
    step.finish()
    return "ok" if result is None else result


def _check(stage: Stage, where: str, expect: object, alternative: object) -> Check:
    expected = flatten(expect, where)
    stated, note = read_alternative(alternative, where)
    other = None if stated is None else flatten(stated, f"{where}, the alternative", ignore_others=True) or None
    found = {_spelt(path): look(stage, path, value) for path, value in {**(other or {}), **expected}.items()}
    return Check(where, _by_text(expected), found, None if other is None else _by_text(other), note)


def _by_text(paths: dict[Path, Any]) -> dict[str, Any]:
    return {_spelt(path): value for path, value in paths.items()}


def _spelt(path: Path) -> str:
    return ".".join(path)
