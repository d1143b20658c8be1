"""The README's picture: there, moving, small, and made frame by frame from a schedule."""

from helpers.collectives.schedule import model
from helpers.paths import ROOT
from tools.readme_picture import MAX_BYTES, PARTS, frames, picture

PICTURE = ROOT / "docs" / "ring_allreduce.gif"


def test_the_picture_moves_and_is_small():
    from PIL import Image

    assert PICTURE.stat().st_size < MAX_BYTES
    with Image.open(PICTURE) as image:
        assert image.n_frames == len(list(frames(model("ring", 4))))


def test_frames_cover_every_step():
    plan = list(frames(model("ring", 3)))
    assert [(step, part) for step, part, _ in plan if not part] == [(s, 0.0) for s in range(5)]
    assert len(plan) == 4 * PARTS + 1


def test_one_frame():
    assert picture(model("ring", 3), 1, 0.5).size[0] > 300
