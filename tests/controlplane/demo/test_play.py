import io
import sys

import pytest
from pytest_django import Settings
from rich.console import Console

from controlplane.demo.options import DemoOptions
from controlplane.demo.play import Demo
from controlplane.demo.supplies import DemoError
from controlplane.process import Process
from controlplane.stack import policy_is_elsewhere
from controlplane.supervisor import Supervisor
from tests.controlplane.test_supervisor import until


@pytest.mark.process
def test_a_process_that_refuses_this_host_ends_the_demo_with_its_own_words() -> None:
    code = "import sys; print('This host cannot isolate: no control group. Mount one.'); sys.exit(78)"
    with Supervisor([Process(name="sandbox", command=(sys.executable, "-c", code))]) as supervisor:
        demo = Demo(supervisor, Console(file=io.StringIO()), DemoOptions())
        until(supervisor.refused)
        with pytest.raises(DemoError, match=r"sandbox cannot run here.*\n.*no control group\. Mount one\."):
            demo.check()


@pytest.mark.parametrize(
    ("url", "elsewhere"),
    [
        ("http://127.0.0.1:8100", False),
        ("http://localhost:1", False),
        ("http://[::1]:8100", False),
        ("http://gpu.example:8100", True),
        ("https://10.0.0.7", True),
    ],
)
def test_a_policy_server_is_elsewhere_unless_its_address_is_a_loopback_one(
    url: str, elsewhere: bool, settings: Settings
) -> None:
    settings.ASSAY_POLICY_URL = url
    assert policy_is_elsewhere() is elsewhere
