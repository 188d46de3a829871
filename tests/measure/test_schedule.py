"""When jobs are called, and what they may cost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

from curator_bench.measure.processes import busyness
from curator_bench.measure.schedule import Job, Schedule


def job(
    call: Callable[[], None], every_s: float = 0.02, share: float = 0.5, end: Callable[[], None] | None = None
) -> Job:
    return Job("the test", call, lambda _elapsed_s: every_s, share, end)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20 * busyness()
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def burn(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        sum(range(1000))


def test_a_job_is_called_at_once_again_and_again_and_once_more_at_the_end() -> None:
    calls: list[str] = []
    schedule, counted = Schedule(), job(lambda: calls.append("call"), end=lambda: calls.append("end"))
    assert schedule.add(counted)
    assert calls
    wait_until(lambda: len(calls) > 4)
    assert schedule.remove(counted)
    assert calls.count("end") == 1
    assert calls[-1] == "end"
    after = len(calls)
    time.sleep(0.1)
    assert len(calls) == after


def test_several_jobs_share_one_thread_that_ends_with_the_last() -> None:
    threads: set[threading.Thread] = set()
    schedule = Schedule()
    jobs = [job(lambda: threads.add(threading.current_thread())) for _ in range(3)]
    assert all(schedule.add(each) for each in jobs)
    assert all(schedule.remove(each) for each in jobs)
    assert len(threads) == 1
    (thread,) = threads
    assert thread.daemon
    thread.join(5 * busyness())
    assert not thread.is_alive()
    assert schedule.add(jobs[0])
    assert schedule.remove(jobs[0])


def test_a_job_that_costs_more_than_its_share_is_called_less_often() -> None:
    calls: list[float] = []

    def costly() -> None:
        calls.append(time.monotonic())
        burn(0.03)

    schedule, throttled = Schedule(), job(costly, share=0.02)
    began = time.monotonic()
    schedule.add(throttled)
    wait_until(lambda: len(calls) >= 3)
    schedule.remove(throttled)
    # 50 ms are free; the third call begins when the other 10 ms of the first two are within its share.
    assert calls[2] - began >= 0.5


def test_a_hurried_job_is_called_at_once_whatever_it_cost() -> None:
    called = threading.Event()
    schedule, rare = Schedule(), job(called.set, every_s=3600)
    schedule.add(rare)
    called.clear()
    schedule.hurry(rare)
    assert called.wait(5 * busyness())
    assert schedule.remove(rare)


def test_a_hurry_during_a_call_is_not_forgotten() -> None:
    entered, go_on, calls = threading.Event(), threading.Event(), list[int]()

    def slow() -> None:
        calls.append(1)
        entered.set()
        go_on.wait(10 * busyness())

    schedule, slow_job = Schedule(), job(slow, every_s=3600)
    schedule.add(slow_job, patience_s=0)
    assert entered.wait(5 * busyness())
    schedule.hurry(slow_job)
    go_on.set()
    wait_until(lambda: len(calls) == 2)
    assert schedule.remove(slow_job)


def test_a_job_that_fails_is_logged_once_and_called_on(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def failing() -> None:
        calls.append(1)
        raise OSError("the disk is full")

    schedule, failing_job = Schedule(), job(failing)
    with caplog.at_level(logging.WARNING):
        schedule.add(failing_job)
        wait_until(lambda: len(calls) > 2)
        schedule.remove(failing_job)
    assert failing_job.warnings() == ("the test failed: OSError: the disk is full",)
    assert len(caplog.records) == 1


def test_a_job_that_hangs_holds_nobody_up() -> None:
    go_on = threading.Event()
    schedule, hanging = Schedule(), job(lambda: void(go_on.wait(30)))
    began = time.monotonic()
    assert not schedule.add(hanging, patience_s=0.1)
    assert not schedule.remove(hanging, patience_s=0.1)
    assert time.monotonic() - began < 5 * busyness()
    go_on.set()


def void(_value: object) -> None:
    """Takes a value and gives none."""
