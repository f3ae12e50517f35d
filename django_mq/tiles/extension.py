"""How the past of the tiles enters: two duties of the leader."""

from __future__ import annotations

from typing import Final

from django_mq.seams.extension import Duty, Extension
from django_mq.tiles import sampler

EXTENSION: Final = Extension(
    name="tiles",
    duties=(
        Duty(name="sample", run=sampler.sample, interval_seconds=60, leader_only=True),
        Duty(name="prune", run=sampler.prune, interval_seconds=300, leader_only=True),
    ),
)
