"""Small task folders to read, lint and break."""

from pathlib import Path

MINIMAL = {
    "task.toml": 'schema_version = "1.3"\n[task]\nname = "lab/greet-7"\n',
    "instruction.md": "Write hello into out.txt.\n",
    "environment/Dockerfile": "FROM assay/base\nWORKDIR /app\nCOPY files/ /app/\n",
    "environment/files/data/in.txt": "in\n",
    "tests/test.sh": "#!/bin/bash\ngrep -q hello out.txt && echo 1 > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "echo hello > out.txt\n",
}


def task_folder(place: Path, changes: dict[str, str | None] | None = None) -> Path:
    """A valid folder with some files changed, added, or (None) left out."""
    folder = place / "task"
    for path, text in (MINIMAL | (changes or {})).items():
        if text is not None:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return folder
