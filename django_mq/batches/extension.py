"""How batches enter: the ends of their members, and duties of the maintenance."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_lazy

from django_mq.batches.duty import INTERVAL_SECONDS, KEEP_DAYS, look_again, prune
from django_mq.batches.ends import ENDS, note_ends
from django_mq.batches.panel import show
from django_mq.batches.reconcile import INTERVAL_SECONDS as RECONCILE_SECONDS
from django_mq.batches.reconcile import find, reconcile
from django_mq.engine.decisions.batches import BATCHES
from django_mq.seams.extension import Duty, Extension, Listening, Panel

EXTENSION: Final = Extension(
    name="batches",
    # Members are marked when they are written: no other publish asks.
    ends=(Listening(name=BATCHES, ends=ENDS, wants=None, tell=note_ends),),
    duties=(
        Duty(name="count", run=look_again, interval_seconds=INTERVAL_SECONDS, leader_only=True, announces=True),
        Duty(name="reconcile", run=reconcile, limit=5000, interval_seconds=RECONCILE_SECONDS, leader_only=True),
        Duty(name="forget", run=prune, limit=5000, interval_seconds=300, leader_only=True),
    ),
    findings=(find,),
    panels=tuple(Panel(page=page, title=gettext_lazy("Batch"), content=show) for page in ("message", "history")),
    settings=(KEEP_DAYS,),
)
