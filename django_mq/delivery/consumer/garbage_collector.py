"""Let Python's garbage collector run less often in a worker.

Claimed messages are thousands of small objects that live for a moment and form no cycles. By default the collector
runs after every few hundred objects, and at times over everything that the process has imported.
"""

from __future__ import annotations

import gc

#: New objects between two collections, at least; Python's own number is 700 or 2,000.
NEW_OBJECTS = 20_000


def collect_less_often() -> None:
    """Let the collector run less often, and skip the objects that exist now.

    Call this in a process that only works on messages, once it has imported what it needs. A higher threshold that
    the project has set stays.
    """
    gc.collect()
    gc.freeze()
    threshold, *older = gc.get_threshold()
    if threshold:
        gc.set_threshold(max(threshold, NEW_OBJECTS), *older)
