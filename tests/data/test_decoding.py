"""What is not a picture of ours reaches no program that would run it."""

from pathlib import Path

import pytest

from poise.data.sets.layouts import decode_image
from poise.errors import DataMismatch

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"


@pytest.fixture
def ghostscript(monkeypatch) -> list[object]:
    from PIL import EpsImagePlugin

    started: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **named: started.append(given))
    return started


def test_postscript_is_not_run_when_data_are_read(ghostscript) -> None:
    with pytest.raises(DataMismatch, match="an image cannot be read"):
        decode_image(POSTSCRIPT)
    assert ghostscript == []


@pytest.mark.torch
def test_postscript_among_pictures_is_not_run(ghostscript, tmp_path: Path) -> None:
    from poise.corruptions.write import PictureFiles
    from poise.inputs.examples import DamagedExample
    from poise.inputs.images import _picture

    path = tmp_path / "a.png"
    path.write_bytes(POSTSCRIPT)
    with pytest.raises(DamagedExample, match=r"a\.png cannot be read as an image"):
        _picture(path, None, None, grey=False)
    assert "cannot identify image file" in PictureFiles(tmp_path, (Path("a.png"),)).load(0, "cifar")
    assert ghostscript == []
