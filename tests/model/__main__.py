"""Search every interleaving of the model of sessions: ``python -m tests.model [NAME ...]``."""

# ruff: noqa: T201

from __future__ import annotations

import sys
import time

from tests.model.search import Search
from tests.model.sessions import Sessions

#: Each search leaves out something else: with everything at once, there are too many states. All of them have two
#: sessions, and end after one crash and one stop of each.
SEARCHES = {
    # Nothing is prefetched.
    "three-messages": Sessions(messages=3, credit=1, losses=0, failing=False, closing=False, apart=False),
    "prefetch": Sessions(messages=2, losses=0, failing=False, closing=False, apart=False),
    # Other things happen between a statement of a heartbeat and its answer; handlers fail; workers stop in order.
    "heartbeats": Sessions(messages=1, losses=0, pauses=True),
}


def main(names: list[str]) -> int:
    """Run the named searches, or all; return 1 if a promise is broken."""
    failed = 0
    for name in names or SEARCHES:
        begin = time.monotonic()
        found = Search(SEARCHES[name]).run()
        print(
            f"{name}: {found.states:,} states, {found.transitions:,} transitions, {found.interleavings:.1e}"
            f" interleavings, {found.depth} steps deep, {time.monotonic() - begin:.0f} s"
        )
        if found.broken:
            failed = 1
            print(f"  {found.broken}", *found.path, sep="\n    ")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
