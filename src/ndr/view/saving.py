"""Pictures and films, by the ending of their name."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Any

from ndr.errors import Refusal
from ndr.whole import fill_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 200
# What would say when a figure was made; without it the same trace gives the same bytes.
TIMELESS: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
FILMS = (".gif", ".mp4")


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, SVG or PDF: text stays text, and the same figure gives the same bytes."""
    import matplotlib

    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "ndr", "pdf.fonttype": 42}
    suffix = path.suffix.lower()

    def write(temporary: Path) -> None:
        with matplotlib.rc_context(style):
            figure.savefig(temporary, dpi=DPI, metadata=TIMELESS[suffix], format=suffix[1:])

    fill_whole(path, write)


def save_film(figure: "Figure", path: Path, frames: int, draw: Callable[[int], None]) -> None:
    """Write `frames` pictures as an animation; `draw(frame)` changes the figure to the next one."""
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if path.suffix.lower() == ".gif":
        writer: FFMpegWriter | PillowWriter = PillowWriter(fps=2)
    elif FFMpegWriter.isAvailable():
        # yuv420p, and therefore even sides, is what every player can show.
        writer = FFMpegWriter(fps=2, extra_args=["-pix_fmt", "yuv420p", "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"])
    else:
        raise Refusal("an MP4 needs the program ffmpeg, which is not installed; write a .gif instead")

    def write(temporary: Path) -> None:
        try:
            with writer.saving(figure, str(temporary), 110):
                for frame in range(frames):
                    draw(frame)
                    writer.grab_frame()
        except CalledProcessError as error:
            raise OSError(f"ffmpeg ended with {error.returncode}") from error

    fill_whole(path, write)
