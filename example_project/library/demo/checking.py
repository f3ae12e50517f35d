"""Compare the index with direct parsing: each file, the totals, and the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from library.demo.errors import DemoFailed
from library.demo.outcomes import NAMES, DeadLetter, Outcomes, Totals, totals_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: A long list of differences tells no more than its beginning.
SHOWN = 10


def check(stored: Outcomes, totals: Totals, dead: Collection[DeadLetter] | None, direct: Outcomes) -> None:
    """Raise DemoFailed with the first differences; ``dead`` is None if dead letters are elsewhere."""
    differences = [
        *different_files(stored, direct),
        *different_totals(totals, totals_of(direct)),
        *(() if dead is None else different_dead_letters(dead, direct)),
    ]
    if differences:
        rest = f"\n  and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise DemoFailed(
            "The index is not what direct parsing finds:\n  " + "\n  ".join(differences[:SHOWN]) + rest
        )


def different_files(stored: Outcomes, direct: Outcomes) -> Iterator[str]:
    """Yield a sentence for every file that is missing, superfluous or different."""
    for path in sorted(stored.keys() | direct.keys()):
        if path not in stored:
            yield f"{path} is not in the index"
        elif path not in direct:
            yield f"{path} is in the index and not in the library"
        elif stored[path] != direct[path]:
            yield f"{path} is stored as {stored[path] or 'broken'}, and is {direct[path] or 'broken'}"


def different_totals(stored: Totals, direct: Totals) -> Iterator[str]:
    """Yield a sentence for every total of the summary that is wrong."""
    for name in NAMES:
        if getattr(stored, name) != getattr(direct, name):
            yield f"{getattr(stored, name)} {name} are in the summary, and {getattr(direct, name)} in the library"


def different_dead_letters(dead: Collection[DeadLetter], direct: Outcomes) -> Iterator[str]:
    """Yield a sentence for every dead letter too many, too few, or without its traceback."""
    broken = {path for path, facts in direct.items() if facts is None}
    died = {letter.path for letter in dead}
    yield from (f"{path} is broken, and its message is no dead letter" for path in sorted(broken - died))
    yield from (f"{path} is not broken, and its message is a dead letter" for path in sorted(died - broken))
    yield from (f"the dead letter of {letter.path} has no traceback" for letter in dead if not letter.traceback)
