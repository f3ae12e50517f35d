"""One run at a time, and nothing left behind."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event, Lock, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_mq.engine.drain import DEFAULT_SLICE, Drain, Slice
from django_mq.errors import OutOfRange


class Bench:
    """A drain over a list of work, whose runs are called by hand."""

    def __init__(self, *work: str, slice: Slice = DEFAULT_SLICE) -> None:  # noqa: A002
        self.work = deque(work)
        self.done: list[str] = []
        self.pulls = 0
        self.scheduled: deque[Callable[[], None]] = deque()
        self.drain = Drain(self.pull, self.scheduled.append, slice)

    def pull(self) -> bool:
        self.pulls += 1
        if not self.work:
            return False
        self.done.append(self.work.popleft())
        return True

    def run(self) -> None:
        self.scheduled.popleft()()


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as they can, so that they meet everywhere."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_a_notification_schedules_a_run_and_the_next_ones_do_not() -> None:
    bench = Bench("a")

    assert [bench.drain.notify() for _ in range(3)] == [True, False, False]

    assert (len(bench.scheduled), bench.done) == (1, [])


def test_a_run_pulls_until_nothing_comes() -> None:
    bench = Bench("a", "b", "c")
    bench.drain.notify()

    bench.run()

    assert (bench.done, len(bench.scheduled)) == (["a", "b", "c"], 0)


def test_after_a_run_a_notification_schedules_again() -> None:
    bench = Bench()
    bench.drain.notify()
    bench.run()

    assert bench.drain.notify()


def test_a_run_that_finds_nothing_looks_once() -> None:
    bench = Bench()
    bench.drain.notify()

    bench.run()

    assert bench.pulls == 1


def test_what_progress_has_unblocked_is_found_by_a_second_look() -> None:
    """The second piece shows only after a pull in vain."""
    answers = deque([True, False, True, False, False, True])
    drain_runs: deque[Callable[[], None]] = deque()
    drain = Drain(answers.popleft, drain_runs.append)
    drain.notify()

    drain_runs.popleft()()

    assert list(answers) == [True]


def test_a_notification_during_the_last_look_is_not_lost() -> None:
    bench = Bench()

    def pull_while_somebody_publishes() -> bool:
        found = bench.pull()
        if bench.pulls == 1:
            bench.work.append("late")
            assert not bench.drain.notify()
        return found

    bench.drain = Drain(pull_while_somebody_publishes, bench.scheduled.append)
    bench.drain.notify()

    bench.run()
    assert bench.done == []
    bench.run()

    assert (bench.done, len(bench.scheduled)) == (["late"], 0)


def test_a_notification_that_a_later_look_has_answered_costs_no_further_run() -> None:
    bench = Bench("a", "b")

    def pull_while_somebody_publishes() -> bool:
        if bench.pulls == 0:
            bench.drain.notify()
        return bench.pull()

    bench.drain = Drain(pull_while_somebody_publishes, bench.scheduled.append)
    bench.drain.notify()

    bench.run()

    assert (bench.done, len(bench.scheduled)) == (["a", "b"], 0)


def test_a_run_ends_after_so_many_deliveries_and_goes_on_later() -> None:
    bench = Bench(*"abcde", slice=Slice(deliveries=2))
    bench.drain.notify()

    done = []
    while bench.scheduled:
        bench.run()
        done.append("".join(bench.done))

    assert done == ["ab", "abcd", "abcde"]


def test_while_it_waits_to_go_on_a_notification_schedules_nothing() -> None:
    bench = Bench(*"abc", slice=Slice(deliveries=1))
    bench.drain.notify()

    bench.run()

    assert not bench.drain.notify()
    assert len(bench.scheduled) == 1


def test_a_run_ends_when_its_time_is_over() -> None:
    ticks = iter(range(100))
    bench = Bench(*"abcde", slice=Slice(seconds=2.0, clock=lambda: float(next(ticks))))
    bench.drain.notify()

    bench.run()

    assert (bench.done, len(bench.scheduled)) == (["a", "b"], 1)


def test_two_drains_take_turns() -> None:
    done: list[str] = []
    runs: deque[Callable[[], None]] = deque()
    left = {"x": 4, "y": 2}

    def puller(name: str) -> Callable[[], bool]:
        def pull() -> bool:
            if not left[name]:
                return False
            left[name] -= 1
            done.append(name)
            return True

        return pull

    for name in left:
        Drain(puller(name), runs.append, Slice(deliveries=1)).notify()
    while runs:
        runs.popleft()()

    assert "".join(done) == "xyxyxx"


def test_a_run_that_was_not_scheduled_does_nothing() -> None:
    bench = Bench("a")

    bench.drain.run()
    bench.drain.notify()
    run = bench.scheduled.popleft()
    run()
    bench.work.append("b")
    run()

    assert bench.done == ["a"]


def test_a_pull_that_raises_leaves_the_drain_usable() -> None:
    bench = Bench("a")
    errors = deque([KeyError])

    def pull() -> bool:
        if errors:
            raise errors.popleft()
        return bench.pull()

    bench.drain = Drain(pull, bench.scheduled.append)
    bench.drain.notify()

    with pytest.raises(KeyError):
        bench.run()
    assert not bench.scheduled
    assert bench.drain.notify()
    bench.run()

    assert bench.done == ["a"]


def test_a_notification_during_a_pull_that_raises_is_not_lost() -> None:
    bench = Bench("a")

    def pull() -> bool:
        if bench.drain.notify() or not bench.pulls:
            bench.pulls += 1
            raise KeyError
        return bench.pull()

    bench.drain = Drain(pull, bench.scheduled.append, Slice(deliveries=1))
    bench.drain.notify()

    with pytest.raises(KeyError):
        bench.run()
    bench.run()

    assert bench.done == ["a"]


def test_a_schedule_that_refuses_leaves_the_drain_usable() -> None:
    bench = Bench("a")
    answers = deque([RuntimeError("shut down")])

    def schedule(run: Callable[[], None]) -> None:
        if answers:
            raise answers.popleft()
        bench.scheduled.append(run)

    bench.drain = Drain(bench.pull, schedule)

    with pytest.raises(RuntimeError):
        bench.drain.notify()
    assert bench.drain.notify()
    bench.run()

    assert bench.done == ["a"]


@pytest.mark.parametrize("bounds", [{"deliveries": 0}, {"seconds": 0}, {"seconds": float("nan")}])
def test_a_slice_has_room_for_something(bounds: dict[str, float]) -> None:
    with pytest.raises(OutOfRange):
        Slice(**bounds)  # type: ignore[arg-type]


@given(
    st.integers(1, 4),
    st.lists(st.sampled_from(["publish", "run", "publish while it pulls"]), max_size=40),
)
def test_whatever_was_published_is_delivered_in_order(most: int, steps: list[str]) -> None:
    bench = Bench()
    published: list[str] = []
    surprises: list[str] = []

    def publish() -> None:
        published.append(str(len(published)))
        bench.work.append(published[-1])
        bench.drain.notify()

    def pull() -> bool:
        found = bench.pull()
        if surprises and surprises.pop():
            publish()
        return found

    bench.drain = Drain(pull, bench.scheduled.append, Slice(deliveries=most))
    for step in steps:
        if step == "publish":
            publish()
        elif step == "publish while it pulls":
            surprises.append(step)
        elif bench.scheduled:
            bench.run()
        assert len(bench.scheduled) <= 1
    while bench.scheduled:
        bench.run()

    assert bench.done == published


class SharedWork:
    """Work that many threads publish; notes whether any is lost and whether two pull at once."""

    def __init__(self) -> None:
        self.work: deque[Event] = deque()
        self.pulling = Lock()
        self.lost = self.met = False

    def pull(self) -> bool:
        if not self.pulling.acquire(blocking=False):
            self.met = True
            return False
        try:
            return self.take()
        finally:
            self.pulling.release()

    def take(self) -> bool:
        if not self.work:
            return False
        self.work.popleft().set()
        return True

    def publish(self, drain: Drain, most: int) -> None:
        """One after the other is delivered: nobody else's notification may stand in for a lost one."""
        for _ in range(most):
            delivered = Event()
            self.work.append(delivered)
            drain.notify()
            if not delivered.wait(30):
                self.lost = True
                return


def run_jobs(jobs: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (job := jobs.get()) is not None:
        job()


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_no_notification_is_lost_and_no_two_runs_meet(most: int, hasty_threads: None) -> None:
    shared = SharedWork()
    jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    drain = Drain(shared.pull, jobs.put, Slice(deliveries=most))
    publishers = [Thread(target=shared.publish, args=(drain, 500)) for _ in range(8)]
    workers = [Thread(target=run_jobs, args=(jobs,)) for _ in range(3)]

    for thread in publishers + workers:
        thread.start()
    for thread in publishers:
        thread.join()
    for _ in workers:
        jobs.put(None)
    for thread in workers:
        thread.join()

    assert (shared.lost, shared.met, len(shared.work)) == (False, False, 0)
