"""The steps that move the clock."""

from typing import TYPE_CHECKING

from tests.scenarios.errors import MalformedScenarioError

if TYPE_CHECKING:
    from tests.scenarios.artemis.stage import Stage
    from tests.scenarios.fields import Fields

#: How the clock comes to a later time, and whether it stops on the way.
MODES = {"step": True, "jump": False}


def advance_clock(stage: "Stage", step: "Fields") -> None:
    """Let time pass; by steps, each message that becomes due on the way does so at its own instant."""
    to = step.need("to", float)
    if to < stage.now:
        raise MalformedScenarioError(f"{step.where}: the clock stands at {stage.now} already")
    if step.choice("mode", MODES, True):
        _stop_on_the_way(stage, to)
    stage.now = to


def _stop_on_the_way(stage: "Stage", to: float) -> None:
    while (due := _next_due(stage)) is not None and due <= to:
        stage.now = max(stage.now, due)
        stage.settle()


def _next_due(stage: "Stage") -> float | None:
    return min((due for queue in stage.broker if (due := queue.due.next_due()) is not None), default=None)


def wake_timer_early(stage: "Stage", step: "Fields") -> None:
    """Look for what is due although the timer's instant has not come: nothing may be early."""
    at, timer = step.need("at", float), step.need("timer", float)
    if at >= timer:
        raise MalformedScenarioError(f"{step.where}: at {at} the timer for {timer} is not early")
    stage.now = at
