"""Where we have chosen otherwise than Artemis: the choices of ``docs/decisions/0021-scenario-choices.md``.

An alternative that is in words only cannot be compared with what was found. It excuses a
difference if the scenario uses all the words of one of these choices, and the choice is shown.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.scenarios.adapter import Scenario

#: Each with the operations, settings and fields of messages that it can make a difference to.
CHOICES: Final[dict[str, frozenset[str]]] = {
    "due messages stand in due order, whenever they were noticed": frozenset({"deliver_at"}),
    "a message that failed keeps its place after a delay": frozenset({"redelivery_delay"}),
    "what is delivered now stands in due order, and stays ready": frozenset({"deliver_scheduled_now"}),
    "a restart changes no priority": frozenset({"change_priority", "restart"}),
    "the second of two equal duplicate ids is one, in a unit of work too": frozenset({"dedup_id", "tx"}),
    "dead letters that could not be redriven are not counted": frozenset({"retry_dead_letters"}),
    "of a full ring the oldest first one goes, and a due message stays": frozenset({"ring_size"}),
    "the later value is the one that came to stand later": frozenset({"last_value", "deliver_at"}),
    "what is superseded is replaced at once": frozenset({"last_value"}),
    "a group whose owner is busy is passed over": frozenset({"group"}),
    "a consumer is shown each message once, also when others become due": frozenset({"non_destructive"}),
    "a dead letter forgets its schedule": frozenset({"dead_letter_queue", "deliver_at"}),
}


def choices_in(scenario: "Scenario") -> list[str]:
    """The choices that can make a difference to a scenario."""
    words = _words(scenario)
    return [choice for choice, needed in CHOICES.items() if needed <= words]


def _words(scenario: "Scenario") -> set[str]:
    queues = scenario.setup.get("queues") or {}
    words = {word for settings in queues.values() for word in settings or {}}
    for step in scenario.steps:
        words |= {step["op"], *step, *(step.get("settings") or {})}
    return words
