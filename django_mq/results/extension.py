"""How results enter: a duty of the leader deletes what has expired."""

from __future__ import annotations

from typing import Final

from django_mq.results.pruning import prune
from django_mq.seams.extension import Duty, Extension

EXTENSION: Final = Extension(
    name="results",
    duties=(Duty(name="prune", run=prune, limit=500, interval_seconds=30, leader_only=True),),
)
