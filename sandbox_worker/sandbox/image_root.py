"""The root of a box that has an image, as words for bubblewrap: layers over each other, read-only but for a build."""

from dataclasses import dataclass
from pathlib import Path

OLDEST = (0, 11)
"""The first bubblewrap that has overlays."""


@dataclass(frozen=True)
class Writable:
    """Where a build writes: folders of one file system that is gone afterwards, an upper and an empty one each."""

    root: tuple[str, str]
    usr: tuple[str, str]
    uid: int | None
    """The host's uid that owns every layer; None: this process's own."""
    as_root: bool
    """Whether the commands see themselves as root. They have no capability either way."""


@dataclass(frozen=True)
class ImageRoot:
    """Folders are named from the lowest layer to the highest."""

    layers: tuple[str, ...]
    usr: tuple[str, ...] = ()
    """Of /usr, where that is the host's; empty where the layers have it."""
    writable: Writable | None = None

    def words(self) -> list[str]:
        upper = self.writable
        words = overlay("/", self.layers, upper.root if upper else None)
        if self.usr:
            words += overlay("/usr", self.usr, upper.usr if upper else None)
        return words

    def sealed(self) -> list[str]:
        """Said last: an overlay would else honour what is set-uid in it."""
        return ["--remount-ro", "/usr"] if self.usr and not self.writable else []


def overlay(place: str, folders: tuple[str, ...], upper: tuple[str, str] | None) -> list[str]:
    if len(folders) == 1 and not upper:
        return ["--ro-bind", folders[0], place]
    words = [word for folder in folders for word in ("--overlay-src", folder)]
    return [*words, "--overlay", *upper, place] if upper else [*words, "--ro-overlay", place]


def with_usr(layers: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of /usr: the host's at the bottom, and what each layer has over it."""
    return ("/usr", *(f"{layer}/usr" for layer in layers if Path(layer, "usr").is_dir()))
