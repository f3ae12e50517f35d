"""One queue: its entries, their times and their consumers, composed."""

from django_mq.engine.doors.looking import Looking


class Queue(Looking):
    """A queue; ``Rules`` say which, and the package's docstring what it promises.

    ``now`` is always seconds on the one clock that the messages' times are given in. Every
    method may be called from any thread. ``entries`` replaces the list the queue stands in.
    ``lock`` is shared with the queues it sends messages to, which ``resolve`` finds by name:
    a ``Broker`` sees to both.
    """
