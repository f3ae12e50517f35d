"""A worker's process and Python's collector of cycles.

Claimed messages are thousands of small objects that live for a moment and form no cycles. By
default the collector begins every few hundred of them, and every so often looks at everything that
the process has imported as well.
"""

from __future__ import annotations

import gc

#: New objects between two collections, at least; Python's own number is 700 or 2,000.
NEW_OBJECTS = 20_000


def spare_the_collector() -> None:
    """Let the collector begin less often, and leave out what is there already.

    For a process that does nothing but work on messages, once it has imported what it needs. Cycles
    are collected as before, only later; a larger number that the project has set stays.
    """
    gc.collect()
    gc.freeze()
    threshold, *older = gc.get_threshold()
    if threshold:
        gc.set_threshold(max(threshold, NEW_OBJECTS), *older)
