"""One rule says how urgent a queue is."""

from __future__ import annotations

from typing import Any

from django_mq.engine.decisions.urgency import UrgencyLevel, urgency

NONE: dict[str, Any] = {"has_problem": False, "has_notice": False, "waited_seconds": 0.0, "dead": 0}
NONE |= {"failed": 0.0, "held": 0, "moved": 0.0}


def test_a_queue_is_urgent_by_its_alerts_then_its_oldest_message_then_its_dead_letters() -> None:
    worst_first = [
        {"has_problem": True, "has_notice": True, "waited_seconds": 9.0},
        {"has_problem": True, "has_notice": True, "dead": 5, "held": 5},
        {"has_notice": True, "waited_seconds": 7200.0, "held": 1},
        {"waited_seconds": 20.0, "held": 1},
        {"dead": 2, "held": 2},
        {"failed": 0.5, "held": 2},
        {"held": 3},
        {"moved": 0.1},
        {},
    ]

    found = [urgency(**NONE | given) for given in worst_first]

    assert found == sorted(found, reverse=True)
    problem, notice, well, idle = sorted(UrgencyLevel, reverse=True)
    assert [each.level for each in found] == [*[problem] * 2, notice, *[well] * 5, idle]
