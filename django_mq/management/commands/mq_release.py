"""Take messages from the workers that hold them."""

from __future__ import annotations

from django_mq.management.messages import MessageCommand


class Command(MessageCommand):
    help = (
        "Take messages from their workers, by their ids or all that match. The messages are ready again in their "
        "old places. A worker that handles such a message goes on with it, so it may be handled twice; the result "
        "of the first worker is ignored."
    )
    action, verb = "release", "released"
    asks = True
