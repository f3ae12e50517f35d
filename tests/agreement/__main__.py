"""The command: ``python -m tests.agreement --store KIND [--seconds N] [--seed N]``, or ``--planted``."""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.scenarios.stored.opening import KINDS, database
from tests.services.server import UnavailableError

STORES = sorted(set(KINDS) - {"memory"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print what was done; 1 if the stores disagree, or if a planted fault was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__)
    parser.add_argument(
        "--store",
        choices=STORES,
        default="sqlite",
        help="which store to compare with the memory store, and to plant faults in",
    )
    parser.add_argument("--seconds", type=float, help="how long to go on")
    parser.add_argument("--seed", default="1", help="where to begin; the same seed plays the same histories")
    parser.add_argument("--only", type=int, help="play this one history of the seed")
    parser.add_argument("--all", action="store_true", help="go on after a disagreement")
    parser.add_argument("--unshrunk", action="store_true", help="print a disagreement as it was found")
    parser.add_argument(
        "--planted", nargs="*", metavar="FAULT", help="plant each fault (or those named), and time its discovery"
    )
    asked = parser.parse_args(arguments)
    if asked.seconds is None:
        asked.seconds = 60.0 if asked.planted is None else 600.0
    if asked.planted is not None:
        from tests.agreement.faults import find_all

        return find_all(asked.store, asked.planted, asked.seconds)
    try:
        with database(asked.store):
            return _compare(asked)
    except UnavailableError as missing:
        _print(str(missing))
        return 1


def _compare(asked: argparse.Namespace) -> int:
    # Only now: models can be imported when Django knows its settings.
    from tests.agreement.coverage import Coverage
    from tests.agreement.history import history_of
    from tests.agreement.pair import Disagreement, Pair
    from tests.agreement.shrinking import shortest

    began, operations, histories, disagreements, coverage = time.monotonic(), 0, 0, 0, Coverage()
    numbers = range(10**9) if asked.only is None else [asked.only]
    with Pair("default") as pair:
        for number in numbers:
            try:
                operations += pair.play(history_of(f"{asked.seed} {number}"), coverage)
            except Disagreement as found:
                disagreements += 1
                _print(f"history {number} of seed {asked.seed}, after {time.monotonic() - began:.1f} seconds\n")
                if not asked.unshrunk:
                    found = shortest(pair, found)
                _print(f"{found.history}\n\n{found}\n")
            histories += 1
            if time.monotonic() - began > asked.seconds or (disagreements and not asked.all):
                break
    seconds = time.monotonic() - began
    _print(
        f"{histories} histories, {disagreements} of them disagree: {operations} operations "
        f"in {seconds:.0f} seconds, {operations / seconds:.0f} a second"
    )
    _print(str(coverage))
    return int(disagreements > 0)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
