"""How tenants enter: the setting, and two duties of the leader."""

from __future__ import annotations

from typing import Final

from django_mq.seams.extension import Duty, Extension
from django_mq.tenants import duty
from django_mq.tenants.declared import KEY

EXTENSION: Final = Extension(
    name="tenants",
    settings=(KEY,),
    duties=(
        # After the minute is summed up by type: the extension comes after that of the rollups.
        Duty(name="sum_up", run=duty.sum_up, limit=5, interval_seconds=60, leader_only=True),
        Duty(name="prune", run=duty.prune, limit=5000, interval_seconds=300, leader_only=True),
    ),
)
