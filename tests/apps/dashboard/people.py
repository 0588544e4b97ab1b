"""Users, tasks and policies for the tests of the pages."""

import io
import tarfile

from apps.accounts.models import Membership, Project, User
from apps.fleet.models import Endpoint
from apps.policies.models import Policy
from apps.tasks.models import Task, TaskSet, TaskVersion
from wire.store import Store

ONE_ROUND = ("copy-file", "count-lines", "make-folder", "sort-words", "write-line")
TWO_ROUNDS = ("told-word", "told-port", "find-file")
UNSEEN = ("rename-all", "told-append")
INSTRUCTION = "Write the password named in note.txt into out.txt."


def make_user(name: str, role: str = "", project: Project | None = None) -> User:
    user = User.objects.create_user(name, password="open sesame")
    if role:
        Membership.objects.create(project=project or Project.default(), user=user, role=role)
    return user


def pack(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def make_version(
    project: Project,
    store: Store,
    name: str,
    family: str,
    *,
    rounds: int = 1,
    state: str = "admitted",
    instruction: str = INSTRUCTION,
) -> TaskVersion:
    task = Task.objects.create(project=project, name=name, family=family)
    key = f"tasks/{project.pk}/{name}.tar"
    store.put(
        key,
        pack(
            {
                "instruction.md": instruction,
                "task.toml": f'version = "1.0"\n[metadata]\nfamily = "{family}"\n',
                "solution/solve.sh": "#!/bin/sh\ncat note.txt\necho lemon > out.txt\n",
                "tests/test.sh": '#!/bin/sh\n[ "$(cat out.txt)" = lemon ] && echo 1 > /logs/verifier/reward.txt\n',
            }
        ),
    )
    return TaskVersion.objects.create(
        task=task,
        number=1,
        digest=f"{abs(hash((project.pk, name))):064x}"[:64],
        key=key,
        instruction=instruction,
        round_limit=rounds,
        settings={"agent_seconds": 120, "verifier_seconds": 60, "cpus": 1, "memory_bytes": 256 * 2**20},
        state=state,
        evidence={
            "reference": {"verdict": "solved", "rollouts": 2, "solved": 2},
            "nothing": {"verdict": "unsolved", "rollouts": 2, "solved": 0},
        },
    )


def make_task_set(project: Project, store: Store, *, train: int = 4, held_out: int = 2, unseen: int = 3) -> TaskSet:
    entries = []
    for family in (*ONE_ROUND, *TWO_ROUNDS):
        rounds = 2 if family in TWO_ROUNDS else 1
        for split, many in (("train", train), ("held-out", held_out)):
            entries += [
                (make_version(project, store, f"{family}-{split}-{i}", family, rounds=rounds), split)
                for i in range(many)
            ]
    for family in UNSEEN:
        rounds = 2 if family.startswith("told") else 1
        entries += [
            (make_version(project, store, f"{family}-{i}", family, rounds=rounds), "unseen") for i in range(unseen)
        ]
    return TaskSet.freeze(project, "shell-basics", entries, "small shell tasks, one and two rounds")


def make_policy(project: Project) -> Policy:
    return Policy.objects.create(
        project=project,
        name="small-shell",
        state="ready",
        digest="9f2c41" + "0" * 58,
        prefix="policies/small-shell",
        parameters=4_212_736,
        context_tokens=1024,
        origin={"source": "bundled", "format": "gguf"},
    )


def make_endpoint() -> Endpoint:
    return Endpoint.objects.create(name="embedded", url="http://127.0.0.1:8100", healthy=True, served=["1@0", "1@60"])
