"""Take messages from the workers that hold them."""

from __future__ import annotations

from django_mq.management.messages import MessageCommand


class Command(MessageCommand):
    help = (
        "Take messages from their workers, by their ids or all that match: they are ready again in their old "
        "place. A worker that is handling such a message does not notice: the message may be handled twice, "
        "and what that worker reports is ignored."
    )
    action, verb = "release", "released"
    asks = True
