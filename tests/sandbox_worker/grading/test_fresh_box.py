import time

import pytest

from sandbox_worker.messages import Check, GradeReport, Outcome, ResourceProfile, ScriptedCall
from sandbox_worker.sandbox.base import Backend, BoxSpec
from tests.sandbox_worker.factories import (
    PASS_IF_DONE,
    fenced,
    limits,
    policy_call,
    put_task,
    put_tokenizer,
    rollout_request,
    task_files,
)
from tests.sandbox_worker.playing import play
from tests.sandbox_worker.policy_server import saying
from wire.store import FolderStore

pytestmark = pytest.mark.sandbox


def act(backend: Backend, store: FolderStore, *scripts: str, tests: str | None = None, **changes: object) -> Outcome:
    """A rollout whose policy runs these scripts, graded by these tests."""
    put_tokenizer(store)
    files = task_files() if tests is None else task_files() | {"tests/test.sh": tests}
    with saying(*map(fenced, scripts)) as server:
        request = rollout_request(put_task(store, files), policy_call(server.url, **changes))
        return play(backend, store, request)


def graded(backend: Backend, store: FolderStore, tests: str) -> GradeReport:
    return act(backend, store, "touch done", tests=tests).grade


@pytest.mark.parametrize("name", ["reward.txt", "reward.json"])
def test_a_reward_written_by_the_agent_does_not_count(backend: Backend, store: FolderStore, name: str) -> None:
    forged = f"mkdir -p /logs/verifier; echo 1 >/logs/verifier/{name}; echo 1 >{name}; mkdir -p logs/verifier"
    assert act(backend, store, forged).grade.verdict == "unsolved"


def test_a_forged_reward_does_not_help_tests_that_write_none(backend: Backend, store: FolderStore) -> None:
    outcome = act(backend, store, "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt", tests="exit 0\n")
    assert outcome.grade.verdict == "unsolved"
    assert "neither reward.json nor reward.txt" in outcome.grade.error


def test_a_background_process_of_the_agent_is_dead_before_the_grade(backend: Backend, store: FolderStore) -> None:
    daemon = (
        "setsid bash -c 'while :; do touch done; echo 1 >/logs/verifier/reward.txt; sleep 0.01; done' >/dev/null 2>&1 &"
    )
    slow = f"sleep 0.3\n{PASS_IF_DONE}"
    outcome = act(backend, store, f"{daemon}\nsleep 0.1; rm -f done", "rm -f done", tests=slow)
    assert outcome.grade.verdict == "unsolved"


def test_the_exit_code_of_the_tests_is_ignored(backend: Backend, store: FolderStore) -> None:
    assert graded(backend, store, "echo 1 >/logs/verifier/reward.txt; exit 9\n").verdict == "solved"


def proved(backend: Backend, store: FolderStore, tests: str) -> Outcome:
    """What these tests say of the task's own solution."""
    return play(backend, store, rollout_request(put_task(store, task_files() | {"tests/test.sh": tests})))


def test_tests_that_say_nothing_are_unsolved(backend: Backend, store: FolderStore) -> None:
    outcome = act(backend, store, "touch done", tests="echo broken; exit 1\n")
    assert (outcome.ending.kind, outcome.grade.verdict, outcome.grade.score) == ("submitted", "unsolved", 0.0)
    assert (outcome.grade.output, len(outcome.rounds)) == ("broken\n", 2)
    assert "neither reward.json nor reward.txt" in outcome.grade.error


def test_tests_that_say_nothing_of_the_reference_are_the_tasks_own_failure(
    backend: Backend, store: FolderStore
) -> None:
    outcome = proved(backend, store, "echo broken; exit 1\n")
    assert (outcome.ending.kind, outcome.ending.detail) == ("infra", "task")
    assert (outcome.grade.verdict, outcome.grade.score, outcome.grade.output) == ("none", None, "broken\n")
    assert "neither reward.json nor reward.txt" in outcome.ending.evidence


@pytest.mark.parametrize("value", ["nan", "true", '"1"', "-1", "1e308", ""])
def test_a_strange_reward_is_no_number(backend: Backend, store: FolderStore, value: str) -> None:
    tests = f"echo '{value}' >/logs/verifier/reward.txt\n"
    report = graded(backend, store, tests)
    assert (report.verdict, report.score) == ("unsolved", 0.0)
    assert "reward.txt" in report.error
    assert proved(backend, store, tests).grade.verdict == "none"


def test_a_linked_or_huge_reward_is_not_read(backend: Backend, store: FolderStore) -> None:
    linked = "echo 1 >x; ln -s /app/x /logs/verifier/reward.json; echo 1 >/logs/verifier/reward.txt\n"
    huge = "head -c 1000000 /dev/zero >/logs/verifier/reward.txt\n"
    for tests in (linked, huge):
        report = graded(backend, store, tests)
        assert report.verdict == "unsolved"
        assert "cannot be read" in report.error
        assert proved(backend, store, tests).grade.verdict == "none"


def test_a_partial_score_is_unsolved_and_kept(backend: Backend, store: FolderStore) -> None:
    report = graded(backend, store, """echo '{"reward": 0.5, "lines": 12}' >/logs/verifier/reward.json\n""")
    assert (report.verdict, report.score, report.metrics) == ("unsolved", 0.5, {"lines": 12.0})


def test_the_checks_of_the_tests_are_kept(backend: Backend, store: FolderStore) -> None:
    ctrf = """{"results": {"tests": [{"name": "made", "status": "passed"}]}}"""
    report = graded(backend, store, f"echo '{ctrf}' >/logs/verifier/ctrf.json; echo 1 >/logs/verifier/reward.txt\n")
    assert report.checks == (Check(name="made", passed=True),)


def hanging(backend: Backend, store: FolderStore, tests: str, *, reference: bool = False) -> Outcome:
    """Graded by tests that do not end in time."""
    put_tokenizer(store)
    task = put_task(store, task_files() | {"tests/test.sh": tests})
    with saying(fenced("true")) as server:
        call = ScriptedCall(script="reference") if reference else policy_call(server.url)
        return play(backend, store, rollout_request(task, call, limits=limits(verifier_seconds=1.0)))


@pytest.mark.parametrize("before", ["", "echo 1 >/logs/verifier/reward.txt\n"])
def test_tests_that_do_not_end_are_unsolved_whatever_they_wrote_first(
    backend: Backend, store: FolderStore, before: str
) -> None:
    outcome = hanging(backend, store, f"{before}sleep 60\n")
    assert (outcome.grade.verdict, outcome.grade.score) == ("unsolved", 0.0)
    assert outcome.grade.error == "the tests did not end within 1 s"
    assert outcome.ending.kind != "infra"


def test_tests_that_do_not_end_for_the_reference_give_no_verdict(backend: Backend, store: FolderStore) -> None:
    outcome = hanging(backend, store, "echo 1 >/logs/verifier/reward.txt; sleep 60\n", reference=True)
    assert (outcome.grade.verdict, outcome.ending.kind, outcome.ending.detail) == ("none", "infra", "task")
    assert "did not end" in outcome.grade.error


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        ("echo 1 >/logs/verifier/reward.txt; kill -9 $$\n", "were killed by a signal"),
        ("python3 -c 'x = bytearray(1 << 30)' && echo 1 >/logs/verifier/reward.txt\n", "ran out of memory"),
    ],
)
def test_tests_that_were_stopped_are_unsolved_for_an_agent_and_no_verdict_for_the_reference(
    backend: Backend, store: FolderStore, tests: str, why: str
) -> None:
    outcome = hanging(backend, store, tests)
    assert (outcome.grade.verdict, outcome.grade.score, outcome.ending.kind) == ("unsolved", 0.0, "submitted")
    assert why in outcome.grade.error
    outcome = hanging(backend, store, tests, reference=True)
    assert (outcome.grade.verdict, outcome.ending.kind, outcome.ending.detail) == ("none", "infra", "task")


@pytest.mark.parametrize("left", ["truncate -s 20M a b", "head -c 20000000 /dev/zero >a; ln a b"])
def test_a_folder_larger_than_a_box_is_the_agents_doing(backend: Backend, store: FolderStore, left: str) -> None:
    outcome = act(backend, store, left)
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "unsolved")
    assert "cannot be graded: /app: the files take more than" in outcome.grade.error


def test_a_folder_that_leaves_the_tests_no_memory_is_the_agents_doing(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    task = put_task(store, task_files() | {"tests/large": "x" * 24 * 2**20})
    profile = ResourceProfile(memory_bytes=48 * 2**20, disk_bytes=36 * 2**20)
    with saying(fenced("head -c 30000000 /dev/zero >large")) as server:
        outcome = play(backend, store, rollout_request(task, policy_call(server.url), profile=profile))
    assert (outcome.ending.kind, outcome.grade.verdict, outcome.grade.score) == ("submitted", "unsolved", 0.0)
    assert "cannot be graded" in outcome.grade.error


def test_a_deadline_that_cuts_the_tests_short_is_not_the_agents_failure(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    task = put_task(store, task_files() | {"tests/test.sh": "sleep 60\n"})
    with saying(fenced("true")) as server:
        request = rollout_request(task, policy_call(server.url), deadline=time.time() + 4)
        outcome = play(backend, store, request)
    assert (outcome.grade.verdict, outcome.ending.kind, outcome.ending.detail) == ("none", "infra", "worker")


def test_a_second_reward_by_a_program_that_the_tests_run_is_unsolved(backend: Backend, store: FolderStore) -> None:
    forge = """echo 'echo "{\\"reward\\": 1}" >/logs/verifier/reward.json' >run.sh"""
    outcome = act(backend, store, forge, tests="bash ./run.sh\necho 0 >/logs/verifier/reward.txt\n")
    assert (outcome.grade.verdict, outcome.grade.score) == ("unsolved", 0.0)
    assert outcome.grade.error.startswith("forged reward")


def test_nothing_that_the_tests_started_writes_after_they_ended(backend: Backend) -> None:
    writer = "setsid bash -c 'while :; do echo x >>/logs/verifier/reward.txt; done' & sleep 0.2"
    box = backend.start(BoxSpec())
    try:
        box.run(["bash", "-c", f"mkdir -p /logs/verifier; {writer}"], timeout=20)
        first = box.read("/logs/verifier/reward.txt", limit=2**25)
        time.sleep(0.3)
        assert first
        assert box.read("/logs/verifier/reward.txt", limit=2**25) == first
    finally:
        box.stop()


def test_a_name_that_no_record_can_hold_is_spelled_out(backend: Backend, store: FolderStore) -> None:
    report = graded(backend, store, """echo '{"reward": 1, "\\ud800": 2}' >/logs/verifier/reward.json\n""")
    assert (report.verdict, report.metrics) == ("solved", {"\\ud800": 2.0})


def test_an_agent_that_deletes_everything_is_graded(backend: Backend, store: FolderStore) -> None:
    outcome = act(backend, store, "rm -rf /app/* /app/.[!.]* /* 2>/dev/null; true")
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "unsolved")


def test_a_folder_that_cannot_be_carried_is_unsolved_not_broken(backend: Backend, store: FolderStore) -> None:
    flood = "touch done; for i in $(seq 300); do mkdir d$i; (cd d$i; touch $(seq 100)); done"
    outcome = act(backend, store, flood)
    assert (outcome.ending.kind, outcome.grade.verdict, outcome.grade.score) == ("submitted", "unsolved", 0.0)
    assert "cannot be graded" in outcome.grade.error


def test_links_and_pipes_of_the_agent_are_not_carried(backend: Backend, store: FolderStore) -> None:
    tests = "ls -A >&2; [ -e secret ] || [ -p pipe ]; echo $((1 - $?)) >/logs/verifier/reward.txt; grep -c . kept\n"
    outcome = act(backend, store, "ln -s /etc/passwd secret; mkfifo pipe; echo x >kept", tests=tests)
    assert outcome.grade.verdict == "unsolved"
    assert "kept" in outcome.grade.output


def test_modes_of_files_are_carried(backend: Backend, store: FolderStore) -> None:
    tests = "./tool; [ $? = 5 ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n"
    assert (
        act(backend, store, "printf '#!/bin/sh\\nexit 5\\n' >tool; chmod +x tool", tests=tests).grade.verdict
        == "solved"
    )


def test_the_tests_environment_is_fixed(backend: Backend, store: FolderStore) -> None:
    tests = 'echo "$PATH|$HOME|$PWD|$BASH_ENV"; echo 0 >/logs/verifier/reward.txt\n'
    report = act(backend, store, "export PATH=/app:$PATH; echo 'evil' >~/.bashrc", tests=tests).grade
    assert report.output.startswith("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin|/tmp|/app|")
    assert "evil" not in report.output
