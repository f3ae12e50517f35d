"""What happened that may explain a change in a chart: deploys, and what operators did to queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.utils.translation import gettext as _

from django_mq.admin.overview.charts import Mark
from django_mq.admin.table import alias
from django_mq.models import Deploy, Queue

if TYPE_CHECKING:
    from datetime import datetime

#: The newest entries that are read: the log has no index of its times.
NEWEST = 500
#: The most characters of a label.
LONGEST = 120


def marks(since: datetime, until: datetime, *, queue: Queue | None = None) -> list[Mark]:
    """Return the deploys within a span, and what operators did to a queue, or to any."""
    deploys = Deploy.objects.using(alias()).filter(first_at__gte=since, first_at__lt=until)[:NEWEST]
    found = [
        Mark(each.first_at, _("deploy: %(version)s") % {"version": each.version}, "deploy") for each in deploys
    ]
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(Queue)).order_by("-pk")
    found += [
        Mark(entry.action_time, f"{entry.object_repr}: {entry.get_change_message()}"[:LONGEST])
        for entry in entries[:NEWEST]
        if since <= entry.action_time < until and (queue is None or entry.object_id == str(queue.pk))
    ]
    return found
