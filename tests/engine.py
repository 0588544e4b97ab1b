"""A Docker Engine of one's own, in a folder of its own: beside a system's, and gone with whoever started it.

Its containers have no network but their own loopback unless it is started with a bridge, which leads to this host only.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import docker
from docker.errors import DockerException

from wire.orphan import child_setup

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class Engine:
    """Raises RuntimeError where the host has no dockerd, or it does not start: never skipped silently."""

    def __init__(self, *, bridge: bool = False) -> None:
        if shutil.which("dockerd") is None:
            raise RuntimeError("There is no dockerd (Debian: apt install docker.io iptables).")
        self.folder = Path(tempfile.mkdtemp(prefix=f"assay-engine-{os.getpid()}-"))
        self.url = f"unix://{self.folder}/docker.sock"
        self.cgroup_parent = self.folder.name
        """Above the control groups of its containers, and of no other Engine's."""
        self._bridge = f"assay{os.getpid()}" if bridge else "none"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("The Docker Engine is not running.")
        return self._process.pid

    def start(self) -> None:
        """Also again, after stop() or kill(): with the same images and containers."""
        command = ["dockerd", "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/run"]
        command += ["--pidfile", f"{self.folder}/pid", "--host", self.url]
        command += [f"--bridge={self._bridge}", "--iptables=false", "--ip6tables=false"]
        command += ["--cgroup-parent", self.cgroup_parent, "--exec-opt", "native.cgroupdriver=cgroupfs"]
        if self._bridge != "none":
            self._add_bridge()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=child_setup()
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"The Docker Engine did not start:\n{(self.folder / 'log').read_text()[-4000:]}")
            time.sleep(0.1)

    def _accepts(self) -> bool:
        """Asked first, for the client loses its own socket where nobody listens."""
        with socket.socket(socket.AF_UNIX) as asking:
            try:
                asking.connect(f"{self.folder}/docker.sock")
            except OSError:
                return False
        return True

    def _add_bridge(self) -> None:
        """Ports of containers are reached through the Engine's own proxy, so that no rule of iptables is needed."""
        if not Path(f"/sys/class/net/{self._bridge}").exists():
            subprocess.run(["ip", "link", "add", self._bridge, "type", "bridge"], check=True)
            address = f"10.213.{os.getpid() % 256}.1/24"
            subprocess.run(["ip", "address", "add", address, "dev", self._bridge], check=True)
        subprocess.run(["ip", "link", "set", self._bridge, "up"], check=True)

    def _answers(self) -> bool:
        if not self._accepts():
            return False
        try:
            client = docker.DockerClient(base_url=self.url, timeout=5)
        except DockerException:
            return False
        try:
            return bool(client.ping())
        except (DockerException, OSError):
            return False
        finally:
            client.close()

    def containers(self) -> list[str]:
        """Ids, also of those that have ended."""
        client = docker.APIClient(base_url=self.url, version="auto")
        try:
            return [str(found["Id"]) for found in client.containers(all=True)]
        finally:
            client.close()

    def stop(self, signum: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(signum)
            self._process.wait(_STOP_SECONDS)
            self._process = None
            deadline = time.monotonic() + _STOP_SECONDS
            while self._has_containerd() and time.monotonic() < deadline:
                time.sleep(0.05)
            # The next one would take a killed one that nobody has buried for a living one, and wait for it.
            (self.folder / "run/containerd/containerd.pid").unlink(missing_ok=True)

    def _has_containerd(self) -> bool:
        """A killed Engine's lives a moment longer."""
        config = f"{self.folder}/run/containerd/containerd.toml".encode()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if words[0].endswith(b"containerd") and config in words:
                return True
        return False

    def remove(self) -> None:
        """Stop it, and leave nothing."""
        self.stop()
        if self._bridge != "none" and Path(f"/sys/class/net/{self._bridge}").exists():
            subprocess.run(["ip", "link", "delete", self._bridge], check=True)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=True)
        shutil.rmtree(self.folder)
        for folder, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
            if folder.endswith(f"/{self.cgroup_parent}"):
                Path(folder).rmdir()
