"""What is wrong with a task folder, said so that its author can mend it."""

from collections.abc import Sequence

MOST_SHOWN = 20


class TaskFormatError(Exception):
    """path: the file meant. field: the key or line meant. value: what stands there. way_out: what to do."""

    def __init__(self, path: str, field: str, value: object, problem: str, way_out: str) -> None:
        where = f"{path}, {field}" if field else path
        shown = "" if value is None else f" (it is {str(value)[:120]!r})"
        super().__init__(f"{where}: {problem}{shown}. {way_out}")
        self.path = path
        self.field = field
        self.value = value
        self.problem = problem
        self.way_out = way_out

    def inside(self, folder: str) -> "TaskFormatError":
        """The same, with the folder that the path is in."""
        path = self.path if self.path.startswith(folder) else f"{folder}/{self.path}"
        return TaskFormatError(path, self.field, self.value, self.problem, self.way_out)


class TaskFoldersError(Exception):
    """Several folders that cannot be used, all named at once."""

    def __init__(self, errors: Sequence[TaskFormatError]) -> None:
        left = len(errors) - MOST_SHOWN
        shown = [str(error) for error in errors[:MOST_SHOWN]] + ([f"and {left} more"] if left > 0 else [])
        super().__init__("\n".join([f"{len(errors)} task folders cannot be imported, so nothing was:", *shown]))
        self.errors = tuple(errors)
