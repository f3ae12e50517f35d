"""What happened that may explain a change in a chart: deploys, and acts of operators on queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from django_mq.acts.models import Act
from django_mq.admin.overview.charts import Mark
from django_mq.admin.table import alias
from django_mq.models import Deploy

if TYPE_CHECKING:
    from datetime import datetime

    from django_mq.models import Queue

#: The most marks of each kind, the newest.
MOST = 500
#: The most characters of a label.
LONGEST = 120


def deploys(since: datetime, until: datetime) -> list[Mark]:
    """Return the deploys within a span."""
    found = Deploy.objects.using(alias()).filter(first_at__gte=since, first_at__lt=until)[:MOST]
    return [Mark(each.first_at, _("deploy: %(version)s") % {"version": each.version}, "deploy") for each in found]


def acts(since: datetime, until: datetime, queue: Queue | None) -> list[Mark]:
    """Return what operators did within a span to a queue, or to any."""
    found = Act.objects.using(alias()).filter(model="queue", began_at__gte=since, began_at__lt=until)
    if queue is not None:
        found = found.filter(about=queue.name)
    return [Mark(each.began_at, f"{each.about}: {each.said}"[:LONGEST]) for each in found.order_by("-pk")[:MOST]]
