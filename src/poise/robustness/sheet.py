"""A contact sheet: one picture under every corruption and severity, 19 x 5, the clean one in the corner."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image, ImageDraw

from poise.robustness.output import Making

_NAMES, _HEAD, _GAP = 130, 18, 2


def contact_sheet(
    image: np.ndarray, making: Making, index: int = 0, enlarge: int = 1, device: torch.device | str = "cpu"
) -> Image.Image:
    """image: uint8 [H, W, 3], which draws the numbers of this index; `enlarge` repeats its pixels."""
    height, width = (side * enlarge + _GAP for side in image.shape[:2])
    rows, columns = len(making.corruptions), len(making.severities)
    sheet = Image.new("RGB", (_NAMES + (columns + 1) * width, _HEAD + rows * height), "white")
    pen = ImageDraw.Draw(sheet)
    for column, title in enumerate(["clean", *(f"severity {severity}" for severity in making.severities)]):
        pen.text((_NAMES + column * width, 3), title, fill="black")
    sheet.paste(_enlarged(image, enlarge), (_NAMES, _HEAD))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(device)
    for row, name in enumerate(making.corruptions):
        pen.text((4, _HEAD + row * height + height // 2 - 6), name, fill="black")
        for column, severity in enumerate(making.severities, start=1):
            changed = making.of(pixels, name, severity, index)
            place = (_NAMES + column * width, _HEAD + row * height)
            sheet.paste(_enlarged(changed.permute(1, 2, 0).cpu().numpy(), enlarge), place)
    return sheet


def _enlarged(image: np.ndarray, by: int) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(image.repeat(by, 0).repeat(by, 1)))
