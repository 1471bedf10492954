"""What the watch over the loss says, and when it gives up."""

import pytest

from keras_bert.pretraining.monitor import LossWatch, RunState


def _watch(max_skipped_steps=3):
    state = RunState()
    watch = LossWatch(state, max_skipped_steps, "runs/one")
    return lambda *steps: [line for _, line in watch.look(*steps)], state


def test_good_steps_are_silent():
    look, state = _watch()
    assert look(1, [4.0, 3.0, 3.5], [True] * 3, 0.1) == []
    assert state["last_good_loss"] == 3.5
    assert state["mean_loss"] == pytest.approx(3.5)  # the mean of the three
    assert state["skipped_steps"] == 0


def test_skipped_steps_are_counted_and_told():
    look, state = _watch()
    nan, inf = float("nan"), float("inf")
    lines = look(8, [4.0, nan, inf, 3.0, nan], [True, False, False, True, False], 0.5)
    assert [line.split(",")[0] for line in lines] == [
        "step 9 skipped",
        "step 10 skipped",
        "step 12 skipped",
    ]
    assert "2 in a row, learning rate 0.5, last good loss 4" in lines[1]
    assert (state["skipped_steps"], state["skipped_in_a_row"]) == (3, 1)


def test_too_many_in_a_row_end_the_run_also_over_several_calls():
    look, _ = _watch(max_skipped_steps=3)
    nan = float("nan")
    look(1, [2.5, nan, nan], [True, False, False], 0.5)
    message = (
        r"4 steps in a row .* step 5 \(learning rate 0\.25, last good loss 2\.5\): .* lower "
        r"--learning_rate in another --model_dir, with --init_from=runs/one/preset or one of kept_"
    )
    with pytest.raises(ValueError, match=message):
        look(4, [nan, nan, 2.0], [False, False, True], 0.25)


def test_a_run_without_a_good_step_says_so():
    look, _ = _watch(max_skipped_steps=0)
    with pytest.raises(ValueError, match="there was no good step"):
        look(1, [float("nan")], [False], 0.25)


def test_a_jump_is_told_and_noise_is_not():
    look, state = _watch()
    calm = [3.0 + 0.1 * (-1) ** i for i in range(100)]  # deviation 0.1
    assert look(1, calm, [True] * 100, 0.1) == []
    assert state["mean_loss"] == pytest.approx(3.0, abs=0.01)
    assert state["loss_variance"] == pytest.approx(0.01, rel=0.1)
    assert look(101, [3.5], [True], 0.1) == []  # five deviations
    (line,) = look(102, [4.5], [True], 0.1)
    assert line.startswith("step 102: the loss jumped to 4.5 (it was 3")


def test_nothing_jumps_before_the_mean_is_known():
    look, _ = _watch()
    assert look(1, [9.0, 3.0, 30.0], [True] * 3, 0.1) == []
