"""How results enter: duties delete what has expired and find lost members, and messages show their results."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_lazy as _

from django_mq.results import panel
from django_mq.results.abandoned import count_abandoned
from django_mq.results.lost import LISTENING
from django_mq.results.pruning import prune
from django_mq.seams.extension import Duty, Extension, Panel

EXTENSION: Final = Extension(
    name="results",
    ends=(LISTENING,),
    duties=(
        Duty(name="prune", run=prune, limit=500, interval_seconds=30, leader_only=True),
        Duty(name="count_abandoned", run=count_abandoned, limit=200, interval_seconds=15, leader_only=True),
    ),
    panels=tuple(Panel(page=page, title=_("Result"), content=panel.show) for page in ("message", "history")),
)
