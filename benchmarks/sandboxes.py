"""How fast boxes start, answer and stop, what they cost, and what is left of them: ours beside the peers'.

Every arm is a process of its own that times its own calls; all take turns in small batches, so that the noise of the
machine hits all alike. Containers run on an Engine that the benchmark starts, all from one image with the same limits.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker

from benchmarks.boxes import environments, image, leaks
from benchmarks.boxes.child import ArmFailedError, ArmSpec, Child
from benchmarks.boxes.figures import BUBBLEWRAP, DOCKER, DOCKER_WARM, SDK, Figures, targets
from benchmarks.boxes.leaks import EngineSide
from benchmarks.boxes.plan import FULL, QUICK, SECONDS, Plan, Step
from benchmarks.result import RESULTS, Result
from tests.engine import Engine

OURS, REX, LLM = "benchmarks.peers.ours", "benchmarks.peers.swe_rex", "benchmarks.peers.llm_sandbox"
ARMS = [
    ArmSpec(BUBBLEWRAP, OURS, ("bubblewrap", "cold"), pace=10),
    ArmSpec("ours bubblewrap, warm", OURS, ("bubblewrap", "warm"), pace=10, crowd=0),
    ArmSpec(DOCKER, OURS, ("docker", "cold"), on_engine=True),
    ArmSpec(DOCKER_WARM, OURS, ("docker", "warm"), on_engine=True, crowd=0),
    ArmSpec(SDK, "benchmarks.peers.docker_sdk", on_engine=True),
    ArmSpec("SWE-ReX, local (no isolation)", REX, ("local",), peer="swe_rex"),
    ArmSpec("SWE-ReX, Docker", REX, ("docker",), peer="swe_rex", on_engine=True, crowd=8, burst=0),
    ArmSpec("llm-sandbox, Docker", LLM, ("cold",), peer="llm_sandbox", on_engine=True),
    ArmSpec("llm-sandbox, Docker, pool (used boxes)", LLM, ("pool",), peer="llm_sandbox", on_engine=True, crowd=0),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few of each: only proves that it runs")
    parser.add_argument(
        "--arm", action="append", metavar="BEGIN", help="only arms whose names begin so; may be repeated"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the result")
    chosen = parser.parse_args()
    specs = [spec for spec in ARMS if spec.name.startswith(tuple(chosen.arm or [""]))]
    if not specs:
        parser.error(
            f"No arm's name begins with {' or '.join(chosen.arm)}; there are: {'; '.join(a.name for a in ARMS)}."
        )
    figures = measure(specs, QUICK if chosen.quick else FULL)
    measurements = figures.measurements()
    Result("sandboxes", measurements, targets(measurements, quick=chosen.quick)).write(chosen.results)
    return 0


def measure(specs: list[ArmSpec], plan: Plan) -> Figures:
    bench = Bench()
    with ExitStack() as until_end:
        place = Path(until_end.enter_context(tempfile.TemporaryDirectory(prefix="assay-sandboxes-")))
        needs_engine = any(spec.on_engine for spec in specs)
        bench.engine = until_end.enter_context(started_engine()) if needs_engine else None
        for spec in specs:
            if child := bench.started(spec, place):
                until_end.callback(bench.end, child)
        for number in range(plan.rounds):
            for step in plan.each_round():
                bench.in_turn(plan, step, f"round {number + 1} of {plan.rounds}")
        for child in bench.children:
            child.close()  # a pool that shrinks would be in another arm's figures
        for child in bench.children:
            for step in plan.once(child.spec):
                bench.take(child, step, "once")
            bench.kill(child, plan.held)
    return bench.figures


@contextmanager
def started_engine() -> Iterator[EngineSide | None]:
    """None, with its reason on the error output, where this host has none: its arms then fail."""
    try:
        engine = Engine(bridge=True)
    except RuntimeError as error:
        say(str(error))
        yield None
        return
    try:
        engine.start()
        client = docker.DockerClient(base_url=engine.url, timeout=300)
        say("building the image")
        image.build(client)
        yield EngineSide(client, engine.url, str(engine.folder))
        client.close()
    finally:
        engine.remove()


class Bench:
    def __init__(self) -> None:
        self.figures = Figures()
        self.children: list[Child] = []
        self.engine: EngineSide | None = None

    def started(self, spec: ArmSpec, place: Path) -> Child | None:
        """None where it does not run, which is a figure."""
        say(f"{spec.name}: starting")
        try:
            child = self._child(spec, place)
            child.start()
        except (environments.NotInstalledError, ArmFailedError) as error:
            say(f"{spec.name}: does not run: {error}")
            self.figures.fail(spec.name, f"does not run: {error}"[:300], 1)
            return None
        self.children.append(child)
        return child

    def in_turn(self, plan: Plan, step: Step, when: str) -> None:
        for child in self.children:
            self.take(child, plan.paced(step, child.spec), when)

    def take(self, child: Child, step: Step, when: str) -> None:
        name = child.spec.name
        say(f"{when}: {step.metric}: {name}")
        side = self.engine_of(child.spec)
        engine = {"engine": side.folder} if side and step.scenario == "crowd" else {}
        try:
            batch = child.ask(step.scenario, seconds=SECONDS, **step.parameters, **engine)
        except ArmFailedError as error:
            say(f"{name}: {error}")
            self.figures.fail(name, step.metric, step.parameters.get("count", 1))
            leaks.clean(child, self.engine_of(child.spec))
            return
        for metric, failures in batch.failures.items():
            for failure in sorted(set(failures)):
                say(f"{name}: {metric}: {failures.count(failure)} times {failure}")
        self.figures.add(name, batch)
        if batch.stuck:
            leaks.clean(child, self.engine_of(child.spec))

    def kill(self, child: Child, held: int) -> None:
        say(f"once: killed at work: {child.spec.name}")
        try:
            self.figures.add(child.spec.name, leaks.after_a_kill(child, self.engine_of(child.spec), held))
        except ArmFailedError as error:
            say(f"{child.spec.name}: {error}")
            self.figures.fail(child.spec.name, "left of a killed process", 1)

    def end(self, child: Child) -> None:
        child.close()
        leaks.clean(child, self.engine_of(child.spec))

    def engine_of(self, spec: ArmSpec) -> EngineSide | None:
        return self.engine if spec.on_engine else None

    def _child(self, spec: ArmSpec, place: Path) -> Child:
        """Raises NotInstalledError, ArmFailedError."""
        env = {"SWE_REX_LOG_STREAM_LEVEL": "ERROR"}
        if spec.on_engine:
            if self.engine is None:
                raise ArmFailedError("there is no Docker Engine")
            env |= {"DOCKER_HOST": self.engine.url, "ASSAY_BENCHMARK_IMAGE": image.IMAGE}
        python = environments.interpreter(spec.peer) if spec.peer else Path(sys.executable)
        return Child(spec, python, place / spec.slug, env)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
