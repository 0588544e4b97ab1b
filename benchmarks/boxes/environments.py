"""A virtual environment for each peer, made once from its exact pins, in var/peers/."""

import hashlib
import subprocess
import sys
from pathlib import Path

from benchmarks.boxes.child import ROOT

PEERS = ROOT / "var" / "peers"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")


class NotInstalledError(Exception):
    """With what pip said."""


def requirements(peer: str) -> Path:
    return ROOT / "benchmarks" / "peers" / f"{peer}.txt"


def interpreter(peer: str) -> Path:
    """Of an environment that has all of the peer's pins. Raises NotInstalledError."""
    pins = requirements(peer)
    place = PEERS / f"{peer}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"
    python, installed = place / "bin" / "python", place / "installed"
    if not installed.exists():
        _run([sys.executable, "-m", "venv", str(place)])
        _run([str(python), *PIP, "-r", str(pins)])
        installed.touch()
    return python


def install_into(folder: Path, peer: str) -> None:
    """The same pins as plain packages, for an image. Raises NotInstalledError."""
    _run([str(interpreter(peer)), *PIP, "--target", str(folder), "-r", str(requirements(peer))])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotInstalledError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
