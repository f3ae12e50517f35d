"""How much memory this process takes, where the system says so."""

from __future__ import annotations

import os
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Return what the process has in memory now; None where there is no /proc."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
