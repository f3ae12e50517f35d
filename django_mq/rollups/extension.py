"""How the figures of the past enter: two duties of the leader."""

from __future__ import annotations

from typing import Final

from django_mq.rollups import duty
from django_mq.seams.extension import Duty, Extension

EXTENSION: Final = Extension(
    name="rollups",
    duties=(
        Duty(name="sum_up", run=duty.sum_up, interval_seconds=60, leader_only=True),
        Duty(name="prune", run=duty.prune, limit=5000, interval_seconds=300, leader_only=True),
    ),
)
