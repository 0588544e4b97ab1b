from apps.buffer.staleness import branch_lag


def test_numbers_that_a_rewind_left_behind_are_no_steps() -> None:
    assert branch_lag(2, range(6)) == 3
    assert branch_lag(2, [0, 1, 2, 5]) == 1
