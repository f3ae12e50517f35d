"""How bridges enter: the option of queues, what is refused when publishing, what is found, and the panel."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_lazy as _

from django_mq.bridges.duty import forget_gone
from django_mq.bridges.findings import find, show
from django_mq.bridges.inward import find as find_receivers
from django_mq.bridges.queues import OPTION, refuse_unholdable
from django_mq.seams.extension import Duty, Extension, Panel

EXTENSION: Final = Extension(
    name="bridges",
    queue_options=(OPTION,),
    written=(refuse_unholdable,),
    findings=(find, find_receivers),
    panels=(Panel(page="queue", title=_("Bridge"), content=show),),
    duties=(Duty(name="forget", run=forget_gone, interval_seconds=60, leader_only=True),),
)
