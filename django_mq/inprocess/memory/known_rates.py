"""What a broker keeps of limits by key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_mq.engine.decisions.rates import Rate, Used


@dataclass(slots=True)
class RatesOfBroker:
    """By queue, limit and key."""

    used: dict[tuple[str, str, str], Used] = field(default_factory=dict)
    held: dict[tuple[str, str, str], float] = field(default_factory=dict)
    exceptions: dict[tuple[str, str, str], Rate] = field(default_factory=dict)
