"""A recipe for your own data: XE, Gaussian contrast and FCL on the pictures of an .npz file, with a table and a page.

    DATA=photos.npz poise run examples/own_recipe.py --seeds 3
    poise table runs/photos
    poise report runs/photos

photos.npz holds train_x, train_y, test_x and test_y: uint8 pictures [N, H, W] or [N, H, W, C], and labels from 0.
Pictures of 28 x 28 without colour fit the network below; put yours into Build.
"""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

import poise
from poise.recipes import Adam, Build, Column, Examples, Experiment, Method, Plan, Task


@dataclass(frozen=True)
class Photos:
    """A task is made by calling this; its fields are part of the recipe, so they decide which runs belong together.

    digest  of the file, so that other pictures under the same name are another recipe.
    sigma   of the noise that the last column adds to the test pictures, from 0 to 1.
    """

    path: str
    digest: str
    classes: int
    sigma: float = 0.2

    def __call__(self) -> Task:
        with np.load(self.path) as arrays:
            x, y = arrays["train_x"], arrays["train_y"]
            test = Examples(arrays["test_x"], arrays["test_y"])
        held = len(y) // 10  # for validation: shuffle the file first if it is sorted
        return Task(
            train=Examples(x[held:], y[held:]),
            validation=Examples(x[:held], y[:held]),
            tests={"clean": lambda device: test, "noise": lambda device: self.noisy(test)},
            num_classes=self.classes,
        )

    def noisy(self, clean: Examples) -> Examples:
        noise = np.random.default_rng(0).normal(0, 255 * self.sigma, clean.x.shape)
        return Examples((clean.x + noise).clip(0, 255).astype(np.uint8), clean.y)


DATA = Path(os.environ.get("DATA", "photos.npz"))
CLASSES = 10
with np.load(DATA) as arrays:
    EPOCH = 9 * len(arrays["train_y"]) // 10 // 128  # steps
WEIGHT = poise.Ramp(1e-2, start=2 * EPOCH, length=2 * EPOCH)  # no contrast for two epochs, then two of growing
NOISE, CONTRAST = poise.Gaussian(sigma=0.3), poise.InfoNCE(temperature=0.1)
EXPERIMENT = Experiment(
    name="photos",
    title="Photos",
    task=Photos(str(DATA), sha256(DATA.read_bytes()).hexdigest()[:12], CLASSES),
    network=Build(poise.LeNet, num_classes=CLASSES),
    plan=Plan(epochs=10, batch_size=128, optimizer=Adam(), learning_rate=poise.Constant(1e-3)),
    methods=(
        Method("XE", poise.XE()),
        Method("CL+Gaussian", poise.CLGaussian(NOISE, CONTRAST, WEIGHT)),
        Method("FCL", poise.FCL(poise.GradientUtility(), poise.TopBottomFraction(0.3), NOISE, CONTRAST, WEIGHT)),
    ),
    columns=(Column("clean", ("clean",)), Column("noise", ("noise",))),
    groups=(("XE", "CL+Gaussian", "FCL"),),
    seeds=3,
)
