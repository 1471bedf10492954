"""Requests to end a job of several parts, by real signals."""

import os
import signal

import pytest

from keras_bert.training.termination import TerminatedError, Termination


def be_asked():
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_request_ends_the_next_part_of_a_job_and_no_other_job():
    before = signal.getsignal(signal.SIGTERM)
    with Termination() as job:
        with Termination() as first:
            be_asked()  # too late for this part, which looks no more
        assert first.requested and job.requested
        with Termination() as second, pytest.raises(TerminatedError):
            second.check()
    assert signal.getsignal(signal.SIGTERM) is before
    with Termination() as another:
        another.check()


def test_a_request_between_two_parts_ends_the_next_one():
    with Termination():
        with Termination() as first:
            pass
        be_asked()
        assert not first.requested
        with Termination() as second, pytest.raises(TerminatedError):
            second.check()
