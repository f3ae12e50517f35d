"""How results enter: a duty deletes what has expired, lost members are counted, and messages show theirs."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_lazy as _

from django_mq.results import panel
from django_mq.results.lost import LISTENING
from django_mq.results.pruning import prune
from django_mq.seams.extension import Duty, Extension, Panel

EXTENSION: Final = Extension(
    name="results",
    ends=(LISTENING,),
    duties=(Duty(name="prune", run=prune, limit=500, interval_seconds=30, leader_only=True),),
    panels=tuple(Panel(page=page, title=_("Result"), content=panel.show) for page in ("message", "history")),
)
