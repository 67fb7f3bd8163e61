"""Pictures for the augmentations."""

import numpy as np
import torch
from PIL import Image

SIZE = 32


def pictures(count: int = 24) -> torch.Tensor:
    """Smooth pictures, flat ones, noise, and one with two levels: uint8 [B, 3, 32, 32]."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (count, 5, 5, 3), dtype=np.uint8)
    smooth = [np.asarray(Image.fromarray(each).resize((SIZE, SIZE), Image.Resampling.BICUBIC)) for each in coarse]
    smooth[0] = np.full((SIZE, SIZE, 3), 77, np.uint8)
    smooth[1] = generator.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    smooth[2] = np.where(generator.random((SIZE, SIZE, 3)) < 0.1, 40, 200).astype(np.uint8)
    smooth[3] = (smooth[3] // 8 + 100).astype(np.uint8)
    return torch.from_numpy(np.stack(smooth)).permute(0, 3, 1, 2)
