"""How failures in groups enter: by duties of the maintenance."""

from __future__ import annotations

import math
from typing import Final

from django_mq.failures import groups, staged
from django_mq.failures.deploys import note_version
from django_mq.seams.extension import Duty, Extension

EXTENSION: Final = Extension(
    name="failures",
    duties=(
        # In each process, when it starts: the first worker of a new version is the deploy.
        Duty(name="version", run=note_version, interval_seconds=math.inf),
        Duty(name="group", run=groups.group_new, limit=500, leader_only=True),
        Duty(name="forget", run=groups.forget_old, limit=5000, interval_seconds=300, leader_only=True),
        # It may send as many messages as one step does, and then goes on after a moment.
        Duty(name="redrive", run=staged.steer, limit=staged.BATCH, leader_only=True),
        Duty(name="forget_redrives", run=staged.forget_old, limit=5000, interval_seconds=300, leader_only=True),
    ),
)
