import threading
import time
from typing import Any

import pytest

from sandbox_worker.attempt import Attempt
from sandbox_worker.messages import Outcome, PolicyCall, ResourceProfile, ScriptedCall
from sandbox_worker.rollout import Rollout
from sandbox_worker.sandbox.base import Backend
from tests.sandbox_worker.factories import (
    FORGETFUL,
    PASS_IF_DONE,
    chat_tokenizer,
    fenced,
    limits,
    policy_call,
    put_task,
    put_tokenizer,
    rollout_request,
    task_files,
)
from tests.sandbox_worker.playing import means_of, play
from tests.sandbox_worker.policy_server import Answer, completion, saying, serving
from wire.store import FolderStore

pytestmark = pytest.mark.sandbox


def say(
    backend: Backend, store: FolderStore, *messages: str, task: dict[str, str] | None = None, **changes: object
) -> Outcome:
    put_tokenizer(store)
    with saying(*messages) as server:
        return play(backend, store, rollout_request(put_task(store, task), policy_call(server.url), **changes))


def test_a_solved_task_submits_and_is_graded(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("touch done"))
    assert (outcome.ending.kind, outcome.grade.verdict, outcome.grade.score) == ("submitted", "solved", 1.0)
    assert [played.action for played in outcome.rounds] == ["touch done\n", None]
    assert outcome.use.boxes_started == 2
    assert outcome.use.box_failures == 0


def test_submitting_at_once_is_graded_too(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, "Done.")
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "unsolved")


def test_giving_up_is_graded_too(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("touch done"), "GIVE UP")
    assert (outcome.ending.kind, outcome.grade.verdict) == ("gave_up", "solved")


def test_an_error_is_told_and_the_rollout_goes_on(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("cat missing"), fenced("touch done"))
    assert outcome.rounds[0].exit_code == 1
    assert outcome.rounds[0].observation.startswith("exit 1\ncat: missing")
    assert outcome.grade.verdict == "solved"


def test_the_agent_finds_its_files_and_no_tests_and_no_solution(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("cat words.txt; ls -A; ls /tests /solution"))
    output = outcome.rounds[0].output
    assert output.startswith("one\ntwo\nwords.txt\n")
    assert "test.sh" not in output
    assert "solve.sh" not in output


def test_after_the_last_round_the_command_still_runs(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("true"), fenced("touch done"), limits=limits(rounds=2))
    assert (outcome.ending.kind, outcome.ending.detail) == ("limit", "rounds")
    assert outcome.grade.verdict == "solved"
    assert outcome.rounds[-1].observation == ""


def test_a_message_cut_before_its_command_ends_the_rollout(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("echo " + "x" * 50), limits=limits(round_tokens=20))
    assert (outcome.ending.kind, outcome.ending.detail) == ("limit", "tokens")
    assert outcome.rounds[0].finish_reason == "length"
    assert len(outcome.rounds[0].sampled_ids) == 20


def test_a_full_context_ends_the_rollout_before_the_call(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, *[fenced("seq 100")] * 3, limits=limits(context_tokens=400))
    assert (outcome.ending.kind, outcome.ending.detail) == ("limit", "context")
    assert len(outcome.rounds) == 1


def test_the_agents_time_ends_the_rollout(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("touch done; sleep 30"), limits=limits(agent_seconds=1.0))
    assert (outcome.ending.kind, outcome.ending.detail) == ("limit", "time")
    assert outcome.rounds[0].end == "timed_out"
    assert outcome.grade.verdict == "solved"


def test_a_command_that_takes_too_long_is_told(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("sleep 30"), limits=limits(command_seconds=0.5))
    assert (outcome.rounds[0].end, outcome.rounds[0].exit_code) == ("timed_out", 124)
    assert outcome.ending.kind == "submitted"


def test_the_policy_sees_head_and_tail_of_a_long_output(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("seq 1000"), limits=limits(observation_characters=40))
    assert outcome.rounds[0].observation.startswith("exit 0\n1\n2\n3")
    assert "characters cut …]" in outcome.rounds[0].observation
    assert outcome.rounds[0].observation.endswith("\n1000")
    assert outcome.rounds[0].output_bytes == 3893


def test_a_flood_of_output_is_bounded_and_counted(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("head -c 100000000 /dev/zero"))
    assert outcome.rounds[0].output_bytes == 100_000_000
    assert outcome.rounds[0].truncated
    assert "\0" not in outcome.rounds[0].output
    assert len(outcome.rounds[0].output) <= 4 * ResourceProfile().output_bytes


def test_binary_output_is_kept_and_told(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced(r"printf 'a\377\000\033[31mb'"))
    assert outcome.rounds[0].output == "a\\xff\\x00\x1b[31mb"
    assert outcome.rounds[0].observation == "exit 0\na�b"


def test_a_command_cannot_read_its_own_script_from_stdin(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("cat\necho after; exit 7"))
    assert (outcome.rounds[0].output, outcome.rounds[0].exit_code) == ("after\n", 7)


def test_quotes_and_expansions_reach_the_shell_unchanged(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("""x='a "b" $(id)'\necho "$x" '\\n' `echo t`\ncat <<'E'\n$HOME\nE"""))
    assert outcome.rounds[0].output == 'a "b" $(id) \\n t\n$HOME\n'


def test_prompts_are_a_chain_of_prefixes_and_samples_are_kept(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    with saying(fenced("echo one"), fenced("echo two; touch done")) as server:
        outcome = play(backend, store, rollout_request(put_task(store), policy_call(server.url)))
        prompts = [tuple(call["prompt"]) for call in server.calls]
    chain: tuple[int, ...] = ()
    for played, prompt in zip(outcome.rounds, prompts, strict=True):
        chain += played.prompt_ids
        assert chain == prompt
        chain += played.sampled_ids
        assert len(played.logprobs) == len(played.sampled_ids)
    assert outcome.use.prompt_tokens == sum(map(len, prompts))
    assert outcome.splits == 0
    assert {played.policy_version for played in outcome.rounds} == {3}


def test_each_round_has_a_seed_of_its_own_and_a_repeat_has_the_same(backend: Backend, store: FolderStore) -> None:
    seeds = []
    put_tokenizer(store)
    for _ in range(2):
        with saying(fenced("true")) as server:
            play(backend, store, rollout_request(put_task(store), policy_call(server.url)))
            seeds.append([call["seed"] for call in server.calls])
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 2


def test_a_template_that_rewrites_the_past_is_split_and_counted(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store, template=FORGETFUL)
    with saying(fenced("true"), fenced("touch done")) as server:
        outcome = play(backend, store, rollout_request(put_task(store), policy_call(server.url)))
        assert tuple(server.calls[1]["prompt"]) == outcome.rounds[1].prompt_ids
    assert [played.split for played in outcome.rounds] == [False, True, True]
    assert outcome.splits == 2


def test_a_chat_only_endpoint_gives_rounds_without_ids(backend: Backend, store: FolderStore) -> None:
    def answer(body: dict[str, Any], number: int) -> Answer:
        text = fenced("touch done") if number == 0 else "Done."
        return {"model": "large", "choices": [{"message": {"content": text}, "finish_reason": "stop"}]}

    with serving(answer) as server:
        call = policy_call(server.url, model="large", token_ids=False, tokenizer_prefix="")
        outcome = play(backend, store, rollout_request(put_task(store), call))
        assert server.calls[1]["messages"][-1] == {"role": "user", "content": "exit 0"}
    assert outcome.grade.verdict == "solved"
    assert outcome.rounds[0].sampled_ids == ()


def test_the_reference_solves_its_task_in_its_rounds(backend: Backend, store: FolderStore) -> None:
    rounds = {"solution/rounds/01.sh": "cat words.txt\n", "solution/rounds/02.sh": "touch done\n"}
    put_tokenizer(store)
    call = ScriptedCall(script="reference", tokenizer_prefix="policies/small")
    outcome = play(backend, store, rollout_request(put_task(store, task_files() | rounds), call))
    assert (outcome.ending.kind, outcome.grade.verdict) == ("submitted", "solved")
    assert [played.action for played in outcome.rounds] == ["cat words.txt\n", "touch done\n", None]
    assert outcome.rounds[1].message == fenced("touch done")
    tokenizer = chat_tokenizer()
    assert outcome.rounds[1].sampled_ids == (*tokenizer.encode(fenced("touch done")), *tokenizer.eos_ids)
    assert "one\ntwo" in tokenizer.decode(outcome.rounds[1].prompt_ids)
    assert outcome.rounds[1].logprobs == ()


def test_a_reference_of_one_round_needs_no_tokenizer(backend: Backend, store: FolderStore) -> None:
    outcome = play(backend, store, rollout_request(put_task(store), limits=limits(rounds=1)))
    assert (outcome.ending.detail, outcome.grade.verdict) == ("rounds", "solved")
    assert outcome.rounds[0].sampled_ids == ()


def test_only_the_reference_gets_the_env_of_the_solution(backend: Backend, store: FolderStore) -> None:
    toml = '[environment.env]\nA = "plain"\n[solution.env]\nA = "mine"\nB = "${HOST:-key}"\n'
    task = task_files(task_DOTtoml=toml, solution__solve_DOTsh='echo "<$A$B>"; touch done\n')
    reference = play(backend, store, rollout_request(put_task(store, task)))
    assert (reference.rounds[0].output, reference.grade.verdict) == ("<minekey>\n", "solved")
    assert say(backend, store, fenced('echo "<$A$B>"'), task=task).rounds[0].output == "<plain>\n"


def test_nothing_leaves_the_task_unsolved(backend: Backend, store: FolderStore) -> None:
    outcome = play(backend, store, rollout_request(put_task(store), ScriptedCall(script="nothing")))
    assert (outcome.ending.kind, outcome.grade.verdict, len(outcome.rounds)) == ("submitted", "unsolved", 1)


def test_a_task_without_a_solution_breaks_at_the_task(backend: Backend, store: FolderStore) -> None:
    outcome = play(backend, store, rollout_request(put_task(store, task_files(solution__solve_DOTsh=None))))
    assert (outcome.ending.kind, outcome.ending.detail, outcome.grade.verdict) == ("infra", "task", "none")
    assert "no reference solution" in outcome.ending.evidence


def test_a_lost_or_changed_task_is_our_failure_and_not_the_tasks(backend: Backend, store: FolderStore) -> None:
    key, digest = put_task(store)
    for task, words in ((("tasks/none.tar", digest), "no object"), ((key, "0" * 64), "does not match its digest")):
        outcome = play(backend, store, rollout_request(task))
        assert (outcome.ending.kind, outcome.ending.detail) == ("infra", "worker")
        assert words in outcome.ending.evidence


def test_a_policy_server_that_is_away_for_a_moment_is_waited_for(backend: Backend, store: FolderStore) -> None:
    def answer(body: dict[str, Any], number: int) -> Answer:
        if number < 2:
            return 503, {"error": {"message": "starting"}}
        return completion(fenced("touch done") if number == 2 else "Done.", body=body)

    put_tokenizer(store)
    with serving(answer) as server:
        outcome = play(backend, store, rollout_request(put_task(store), policy_call(server.url)))
    assert outcome.grade.verdict == "solved"


def test_a_policy_server_that_stays_away_breaks_at_the_policy(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    call = policy_call("http://127.0.0.1:9")
    outcome = play(backend, store, rollout_request(put_task(store), call), outage_seconds=0.5)
    assert (outcome.ending.kind, outcome.ending.detail, outcome.grade.verdict) == ("infra", "policy", "none")
    assert "ConnectionLostError" in outcome.ending.evidence


def test_a_wrong_answer_breaks_at_the_policy_and_keeps_the_rounds_before(backend: Backend, store: FolderStore) -> None:
    def answer(body: dict[str, Any], number: int) -> Answer:
        wrong: dict[str, Any] = {"logprobs": {"token_logprobs": [float("nan")]}} if number else {}
        return completion(fenced("echo one"), body=body, **wrong)

    put_tokenizer(store)
    with serving(answer) as server:
        outcome = play(backend, store, rollout_request(put_task(store), policy_call(server.url)))
    assert (outcome.ending.kind, outcome.ending.detail) == ("infra", "policy")
    assert len(outcome.rounds) == 1


FILL = "for place in /tmp /logs /app; do head -c 31000000 /dev/zero >$place/it; done; echo full"


def test_an_agent_that_fills_its_memory_with_files_is_never_our_failure(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    small = ResourceProfile(memory_bytes=64 * 2**20)
    with saying(fenced(FILL), fenced(FILL), fenced("ls")) as server:
        request = rollout_request(put_task(store), policy_call(server.url), profile=small)
        outcome = play(backend, store, request)
    assert outcome.ending.kind in ("submitted", "limit")
    assert outcome.grade.verdict == "unsolved"


def test_an_attempt_past_its_deadline_is_not_started(backend: Backend, store: FolderStore) -> None:
    outcome = play(backend, store, rollout_request(put_task(store), deadline=time.time() - 1))
    assert (outcome.ending.kind, outcome.ending.detail, outcome.use.boxes_started) == ("infra", "worker", 0)


def hanging(call: PolicyCall, backend: Backend, store: FolderStore) -> tuple[float, Outcome | None]:
    """Cancel a rollout after a second; the seconds that it then took to end, and what it left."""
    attempt = Attempt(rollout_request(put_task(store), call))
    found: list[Outcome | None] = []
    with means_of(backend, store) as means:
        thread = threading.Thread(target=lambda: found.append(Rollout(attempt, means).play()))
        thread.start()
        time.sleep(1.0)
        began = time.monotonic()
        attempt.cancel()
        thread.join(10)
    return time.monotonic() - began, found[0]


def test_a_cancel_stops_a_running_command(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    with saying(fenced("sleep 60")) as server:
        seconds, outcome = hanging(policy_call(server.url), backend, store)
    assert outcome is None
    assert seconds < 2


def test_a_cancel_stops_a_call_of_the_policy(backend: Backend, store: FolderStore) -> None:
    put_tokenizer(store)
    release = threading.Event()

    def answer(body: dict[str, Any], number: int) -> Answer:
        release.wait(20)
        return completion("Done.", body=body)

    with serving(answer) as server:
        seconds, outcome = hanging(policy_call(server.url), backend, store)
        release.set()
    assert outcome is None
    assert seconds < 2


def test_a_task_with_a_list_of_hosts_has_a_way_out_and_its_tests_have_none(
    backend: Backend, store: FolderStore
) -> None:
    look = "echo ${http_proxy:-none}"
    task = task_files(tests__test_DOTsh=f"{look}\n{PASS_IF_DONE}")
    outcome = say(backend, store, fenced(f"{look}; touch done"), task=task, allowed_hosts=("pypi.org",))
    assert outcome.rounds[0].output == "http://127.0.0.1:3128\n"
    assert (outcome.grade.output, outcome.grade.verdict) == ("none\n", "solved")


def test_a_list_of_hosts_that_cannot_be_is_the_tasks_fault(backend: Backend, store: FolderStore) -> None:
    outcome = say(backend, store, fenced("touch done"), allowed_hosts=("*",))
    assert (outcome.ending.kind, outcome.ending.detail) == ("infra", "task")
    assert "'*'" in outcome.ending.evidence
