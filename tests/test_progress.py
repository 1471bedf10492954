"""Progress of jobs, against a clock that the test moves; the terminal is a real one (a pty)."""

import contextlib
import os
import pty
import re
import sys
import termios
import types

import pytest

from keras_bert import progress
from keras_bert.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when the test says so, for this module and for tqdm."""
    moved = types.SimpleNamespace(now=1000.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: moved.now))
    monkeypatch.setattr("tqdm.std.time", lambda: moved.now)
    return moved


def work(job, clock, *steps, **shown):
    """Moves the clock and reports, for each (seconds, units)."""
    for seconds, units in steps:
        clock.now += seconds
        job.update(units, **shown)


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_resumed_job_counts_its_own_work_for_rate_and_time_left(clock, capsys):
    with Progress(100, "step", "pretraining", initial=40) as job:
        # 20 steps in 4 seconds: too early for a line.
        work(job, clock, (2, 10), (2, 10), loss=2.5)
        assert lines(capsys) == []
        # 30 in 6 seconds, 5 a second: 30 more take 6.
        work(job, clock, (2, 10), loss=2.25)
        expected = "pretraining: 70/100 step [00:06<00:06,  5.00step/s, loss=2.25]"
        assert lines(capsys) == [expected]
        # The next line waits another five seconds.
        work(job, clock, (2, 10), (2, 10), loss=2.0)
        assert lines(capsys) == []
    assert lines(capsys) == ["pretraining: 90/100 step [00:10<00:02,  5.00step/s, loss=2]"]


def test_the_rate_follows_the_last_minutes(clock, capsys):
    with Progress(1000, "step", "training") as job:
        work(job, clock, *[(1, 10)] * 20)
        lines(capsys)
        work(job, clock, *[(1, 2)] * 40)
    # Not 280 steps in a minute, which would be 4.67 a second. The other 720 take six minutes, but
    # for what is left of the faster start.
    expected = "training: 280/1000 step [01:00<05:59,  2.00step/s]"
    assert lines(capsys)[-1] == expected


def test_a_total_may_be_unknown_and_bytes_are_scaled(clock, capsys):
    with Progress(None, "B", "reading") as job:
        work(job, clock, (10, 5_000_000))
    assert lines(capsys) == ["reading: 5.00M B [00:10, 500kB/s]"] * 2
    with Progress(4_250_000, "token", "packing", at_once=True) as job:
        work(job, clock, (2, 1_000_000))
    assert lines(capsys) == ["packing: 1.00M/4.25M token [00:02<00:06, 500ktoken/s]"]


def test_a_time_budget_counts_seconds_alone(clock, capsys):
    with Progress(60, "s", "pretraining", initial=15) as job:
        work(job, clock, (30, 30), loss=1.5)
    assert lines(capsys) == ["pretraining: 45/60 s, loss=1.5"] * 2


def test_a_job_that_ends_before_its_first_line_is_silent(clock, capsys):
    with Progress(2, "text", "finding entities") as job:
        work(job, clock, (2, 1), (2, 1))
    assert lines(capsys) == []


def test_a_job_that_fails_tells_how_far_it_came(clock, capsys):
    with pytest.raises(KeyError), Progress(9, "file", "reading") as job:
        work(job, clock, (1, 2))
        job.write("a.txt is empty")
        raise KeyError
    expected = ["a.txt is empty", "reading: 2/9 file [00:01<00:03,  2.00file/s]"]
    assert lines(capsys) == expected


def read_all(master):
    """What was written to a terminal that is closed; Linux ends it with an error."""
    found = b""
    with contextlib.suppress(OSError), open(master, "rb", buffering=0) as file:
        while part := file.read(1 << 16):
            found += part
    return found.decode()


@pytest.mark.parametrize(
    ("seconds", "at_once", "shows"), [(1, False, False), (3, False, True), (1, True, True)]
)
def test_a_short_job_has_no_bar(seconds, at_once, shows, clock, monkeypatch):
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress(2, "text", "finding entities", at_once=at_once) as job:
            work(job, clock, (seconds / 2, 1), (seconds / 2, 1))
    assert ("finding entities: 100%" in read_all(master)) == shows


def test_a_terminal_has_a_bar(clock, monkeypatch):
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress(102, "step", "pretraining", initial=40) as job:
            work(job, clock, (6, 30), loss=2.5)
            job.write("a checkpoint was written")
            work(job, clock, (6.4, 32))
    shown = read_all(master)
    # What stays on the screen: behind the last carriage return of each line.
    rows = [re.split("\r", row.rstrip("\r"))[-1] for row in shown.split("\n")]
    assert re.search(
        r"\rpretraining:  69%\|[^|]+\| 70/102 \[00:06<00:06, +5\.00step/s, loss=2\.5\]", shown
    )
    assert rows[0].strip("\x1b[A ") == "a checkpoint was written"
    assert re.fullmatch(
        r"pretraining: 100%\|█+\| 102/102 \[00:12<00:00, +5\.00step/s, loss=2\.5\]", rows[1]
    )
    assert "step [" not in shown  # no plain line between
    assert all(len(row) <= 80 for row in rows)
