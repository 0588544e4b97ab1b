"""A plain throw-away box for the proofs: commands act on a copy of the environment, tests look at what they left."""

import shutil
import subprocess
from pathlib import Path

from sandbox_worker.sandbox.binary import find_bubblewrap

BUBBLEWRAP = find_bubblewrap()

OPTIONS = """
--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64
--ro-bind-try /etc/alternatives /etc/alternatives
--unshare-all --unshare-user --uid 1000 --gid 1000 --cap-drop ALL --new-session --die-with-parent
--proc /proc --dev /dev --tmpfs /tmp --clearenv --setenv PATH /usr/bin:/bin
"""


def run(command: list[str], app: Path, *binds: str) -> str:
    """What the command printed, whatever its exit code."""
    box = [BUBBLEWRAP.path, *OPTIONS.split(), "--bind", str(app), "/app", "--chdir", "/app", *binds, "--", *command]
    done = subprocess.run(
        box,
        capture_output=True,
        text=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
        check=False,
        env=BUBBLEWRAP.env,
        pass_fds=BUBBLEWRAP.folders,
    )
    assert not done.stderr.startswith("bwrap:"), done.stderr
    return done.stdout + done.stderr


def workspace(task: Path, place: Path) -> Path:
    app = place / "app"
    app.mkdir(parents=True)
    files = task / "environment" / "files"
    if files.exists():
        shutil.copytree(files, app, dirs_exist_ok=True)
    return app


def act(app: Path, commands: tuple[str, ...]) -> list[str]:
    """Run each round's command; what each printed."""
    return [run(["bash", "-c", command], app) for command in commands]


def grade(task: Path, app: Path, place: Path) -> str:
    """What the tests wrote as their reward."""
    logs = place / "verifier"
    logs.mkdir()
    binds = ["--ro-bind", str(task / "tests"), "/tests", "--dir", "/logs", "--bind", str(logs), "/logs/verifier"]
    run(["bash", "/tests/test.sh"], app, *binds)
    return (logs / "reward.txt").read_text().strip()


def reward(task: Path, place: Path, *commands: str) -> str:
    """The reward of these commands on a fresh copy of the environment."""
    app = workspace(task, place)
    act(app, commands)
    return grade(task, app, place)
