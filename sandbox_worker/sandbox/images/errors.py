"""What can be wrong with an image. Each is a kind of its own, so that nobody has to read a text to tell them apart."""

from sandbox_worker.sandbox.base import SandboxError


class ImageError(SandboxError):
    """The task's fault: no box can be started on what it asks for."""


class MissingImageError(ImageError):
    """There is no image of this name or digest here."""

    def __init__(self, name: str, mend: str = "bring it in with manage.py import_image") -> None:
        super().__init__(f"there is no image {name!r}: {mend}, or begin with FROM assay/base")
        self.name = name


class WrongArchitectureError(ImageError):
    """Its programs are for other machines."""

    def __init__(self, name: str, has: str, wants: str) -> None:
        super().__init__(f"the image {name!r} is for {has}, and this host is {wants}: import one for {wants}")
        self.name = name
        self.has = has
        self.wants = wants


class MissingProgramError(ImageError):
    """It lacks a program without which no command can be given."""

    def __init__(self, program: str) -> None:
        super().__init__(f"the image has no {program}: boxes are spoken to through it, so add it to the image")
        self.program = program


class BadImageError(ImageError):
    """An archive or a layer that is damaged or hostile."""


class UnsupportedImageError(ImageError):
    """It can be made, but not without Docker."""

    def __init__(self, why: str) -> None:
        super().__init__(f"needs Docker: {why}")
        self.why = why


class WorkspaceError(ImageError):
    """What it has in the working folder cannot be given to a box."""


class BuildError(ImageError):
    """An instruction that did not do its work: where it stands, and what it said last."""

    def __init__(self, where: str, why: str, log: str = "") -> None:
        super().__init__(f"{where}: {why}" + (f"; it said last:\n{log[-_EVIDENCE:]}" if log else ""))
        self.where = where
        self.why = why
        self.log = log


class BuildFailedError(BuildError):
    """It ended with another exit code than 0."""

    def __init__(self, where: str, exit_code: int, log: str) -> None:
        super().__init__(where, f"exit {exit_code}", log)
        self.exit_code = exit_code


class BuildTimedOutError(BuildError):
    """The time for the whole build was over."""


class BuildOutOfMemoryError(BuildError):
    """It took more memory than a box has."""


class BuildDiskFullError(BuildError):
    """What it left is larger than a box's disk."""


class ImageStoreError(SandboxError):
    """Our side: the host's folder of images, or the making of one, does not work; not the task's fault."""


_EVIDENCE = 1500
