"""An arm for the tests, that behaves as its argument says."""

import os
import sys
import time

from benchmarks.boxes.contract import Arm, Box, Done
from benchmarks.boxes.serving import serve

HOW = sys.argv[1]


class TestBox(Box):
    def run(self, script: str, *, seconds: float) -> Done:
        return Done(0, 0)

    def stop(self) -> None:
        return


class TestArm(Arm):
    def __init__(self) -> None:
        if HOW == "broken":
            raise RuntimeError("cannot be made")

    def start(self) -> Box:
        if HOW == "talkative":
            os.write(1, b"I print\n")
        if HOW == "dying":
            os._exit(1)
        if HOW == "hanging":
            time.sleep(60)
        return TestBox()

    def settle(self, at_once: int) -> None:
        if HOW == "settling badly":
            raise RuntimeError("never rested")

    def close(self) -> None:
        return


if __name__ == "__main__":
    serve(TestArm)
