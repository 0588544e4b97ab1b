"""What was asked of a demo."""

from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path

from controlplane.demo.supplies import DemoError

NAMES = {"warm-grpo": "demo", "control": "demo control"}


@dataclass(frozen=True)
class DemoOptions:
    preset: str = "warm-grpo"
    seed: int = 0
    quick: bool = False
    json: Path | None = None
    leave: bool = False
    again: bool = False

    @classmethod
    def of(cls, given: dict[str, object]) -> "DemoOptions":
        """Raises DemoError where the numbers could not be written: hours later it would be too late to say so."""
        json = Path(str(given["json"])) if given["json"] else None
        if json is not None:
            _check_writable(json)
        return cls(
            preset=str(given["preset"]),
            seed=int(str(given["seed"])),
            quick=bool(given["quick"]),
            json=json,
            leave=bool(given["exit"]),
            again=bool(given["again"]),
        )

    @property
    def run_name(self) -> str:
        """A quick run has a name of its own: it must never be served as the demo."""
        return NAMES[self.preset] + (" (quick)" if self.quick else "")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--exit", action="store_true", help="stop at the table instead of serving on")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")
    parser.add_argument("--again", action="store_true", help="train anew, even if a finished demo is there")
    parser.add_argument("--preset", choices=sorted(NAMES), default="warm-grpo", help="control: a coin for a reward")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few steps: shows that it runs, not that it learns")


def _check_writable(path: Path) -> None:
    if not path.parent.is_dir():
        raise DemoError(f"--json {path}: there is no folder {path.parent}. Make it first, or name another file.")
    known = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise DemoError(f"--json {path} cannot be written: {error.strerror}. Name another file.") from error
    if not known:
        path.unlink()
