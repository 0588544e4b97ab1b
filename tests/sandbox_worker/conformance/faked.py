"""Which tests the fake can be held to, and what it does in them.

They are those of which the contract alone decides: files, exit codes, time limits, cancelling and killing, a session
that closes. All else needs a command that really runs, and would prove nothing of a fake."""

from tests.sandbox_worker.fake_box import Does

TABLE = {
    "echo next": Does(b"next\n"),
    "echo alive": Does(b"alive\n"),
    "true": Does(),
    "exit 7": Does(exit_code=7),
    "exit 3": Does(exit_code=3, closes=True),
    "sleep 60": Does(seconds=60.0),
}

FAKED = frozenset(
    {
        "test_01_a_text_is_read_as_it_was_written",
        "test_02_a_text_beyond_ascii_is_read_as_it_was_written",
        "test_03_bytes_that_are_no_text_are_read_as_they_were_written",
        "test_05_a_file_in_a_folder_named_absolutely",
        "test_06_a_file_in_a_folder_below_the_working_folder",
        "test_08_a_file_that_is_not_there_is_told_apart",
        "test_11_a_name_that_is_an_address_is_only_a_file_that_is_not_there",
        "test_12_no_more_is_read_than_the_limit",
        "test_13_a_text_of_no_length_is_written",
        "test_14_a_text_is_written_under_a_name_with_a_space",
        "test_15_a_text_is_not_written_onto_a_folder",
        "test_17_a_text_replaces_a_text",
        "test_18_bytes_of_no_length_are_written",
        "test_19_bytes_are_written_under_a_name_with_a_space",
        "test_20_bytes_are_not_written_onto_a_folder",
        "test_22_bytes_replace_bytes",
        "test_27_an_exit_code_is_kept",
        "test_28_a_time_limit_is_said_to_be_one",
        "test_a_cancelled_command_ends_and_the_box_lives_on",
        "test_a_killed_box_says_that_it_was_killed",
        "test_stop_may_come_twice_and_nothing_may_be_asked_after_it",
        "test_a_command_beside_an_open_session_is_refused",
        "test_r46_a_session_that_exits_is_closed_with_its_code_and_another_can_be_opened",
    }
)
