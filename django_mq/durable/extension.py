"""How durable handlers enter: an option of handlers, the ends of their messages, and duties of the leader."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_lazy as _

from django_mq.durable import duty, panel
from django_mq.durable.events import KEPT
from django_mq.durable.handler import made_durable
from django_mq.durable.recorder import LISTENING
from django_mq.engine.decisions.ends import End
from django_mq.engine.options import Option
from django_mq.seams.extension import Duty, Extension, Listening, Panel

DURABLE: Final = Option(
    name="durable",
    type="bool",
    default=False,
    help="Whether the handler goes on where it was when it runs again.",
)
EXTENSION: Final = Extension(
    name="durable",
    handler_options=(DURABLE,),
    handlers=(made_durable,),
    settings=(KEPT,),
    panels=(Panel(page="message", title=_("Steps of the handler"), content=panel.show),),
    events=(panel.events_of,),
    # Marked by the first record: no publish asks.
    ends=(Listening(name=LISTENING, ends=duty.GONE | {End.MOVED}, wants=None, tell=duty.follow),),
    duties=(
        Duty(name="wake", run=duty.wake, interval_seconds=60, leader_only=True, announces=False),
        Duty(name="prune_events", run=duty.prune_events, limit=5000, interval_seconds=300, leader_only=True),
        Duty(name="prune_steps", run=duty.prune_steps, limit=5000, interval_seconds=3600, leader_only=True),
    ),
)
