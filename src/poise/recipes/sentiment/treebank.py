"""Sentiment (section 4.1): is a sentence classifier sensitive to the words that people mark?

    poise data get sst sst2 bert-vocab
    poise sweep sentiment --name xe --device cuda             # the baseline's accuracy, on dev
    poise sweep sentiment --name fcl --device cuda            # the paper's grid: tau and the share of tokens
    poise reproduce sentiment --device cuda                   # XE and FCL, 5 seeds each
    poise table runs/sentiment && poise report runs/sentiment

Expected (the paper, XE / FCL): accuracy .875 / .875, correlation of sensitivity with human strength .6702 / .7613.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from poise.data.loading.resident import epoch_order
from poise.data.loading.sentences import PieceDropout, WordPieces
from poise.data.sets.cache import manifest_of, path_of, root
from poise.data.sets.fetch import folder
from poise.data.sets.sst import read_glue, read_phrases
from poise.errors import DataNotFound, TrainingError
from poise.features.perturbation import Remove
from poise.features.selection import TopBottomFraction
from poise.features.utility import RemovalUtility
from poise.losses import CrossEntropy
from poise.models.transformer import Transformer, with_table
from poise.objectives.contrast import InfoNCE
from poise.objectives.fcl import FCL
from poise.objectives.objective import XE
from poise.recipes.sentiment.human import Alignment, Strips
from poise.recipes.settings import TOKEN_FRACTIONS, TOKEN_TEMPERATURES
from poise.records.columns import Column
from poise.running.experiment import Build, Examples, Experiment, Method, Task
from poise.running.sweeps import VALIDATION, Sweep
from poise.schedules import Cosine, Ramp
from poise.training.plan import Adam, Plan, Precision

PHRASES = 67_347  # GLUE's training set without two dev or test sentences
VOCABULARY = 30_522
BATCH = 32


@dataclass(frozen=True)
class Phrases:
    """Training phrases, dev sentences for choosing settings, and test sentences, all as word pieces.

    most  train on this number of phrases only, drawn once with a fixed seed.
    """

    most: int | None = None
    max_length: int = 128

    def __call__(self) -> Task:
        _require_all("sst", "sst2", "bert-vocab")
        vocabulary = path_of("bert-vocab", "vocab.txt")
        return _task(vocabulary, folder("sst2"), folder("sst"), self.most, self.max_length)


@cache
def _task(vocabulary: Path, home: Path, trees: Path, most: int | None, max_length: int) -> Task:
    """Cached for all trials of a sweep: splitting all phrases into pieces takes seconds."""
    pieces, phrases = WordPieces(vocabulary), read_phrases(home)
    chosen = [phrases[row] for row in epoch_order(len(phrases), 0, 0)[:most].tolist()]

    def examples(rows: list[tuple[str, int]]) -> Examples:
        x, _ = pieces([text.split(" ") for text, _ in rows], max_length)
        return Examples(x.ids.numpy().astype(np.int32), np.array([label for _, label in rows]))

    return Task(
        train=examples(phrases if most is None else chosen),
        validation=examples(read_glue(home, trees, "dev")),
        tests={"test": lambda _: examples(read_glue(home, trees, "test"))},
        num_classes=2,
    )


def _require_all(*names: str) -> None:
    """Raise before training, with one message for all missing data sets."""
    if missing := [name for name in names if manifest_of(name) is None]:
        raise DataNotFound(f"not in {root()}: {', '.join(missing)}; get them with  poise data get {' '.join(missing)}")


@dataclass(frozen=True)
class Embeddings:
    """A table of token embeddings in a safetensors file. A recipe identifies it by its content, not by its path.

    tensor  the name of the table, if the file has several with this number of rows.
    """

    path: str = field(repr=False, compare=False)
    tensor: str | None = None
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        try:
            with open(self.path, "rb") as stream:
                object.__setattr__(self, "sha256", file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise TrainingError(f"{self.path} cannot be read as a safetensors file: {error}") from None

    def read(self, rows: int) -> torch.Tensor:
        """The only table with this number of rows, or the named one."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, "pt") as file:
                fit = [n for n in file.keys() if file.get_slice(n).get_shape()[:1] == [rows]]  # noqa: SIM118
                tables = {name: file.get_tensor(name) for name in ([self.tensor] if self.tensor else fit)}
        except (OSError, SafetensorError) as error:
            raise TrainingError(f"{self.path} cannot be read as a safetensors file: {error}") from None
        fitting = {n: t for n, t in tables.items() if t.ndim == 2 and len(t) == rows}
        if len(fitting) != 1:
            found = ", ".join(fitting) or "none"
            raise TrainingError(
                f"{self.path} must have one table of {rows} rows, but has {found}: choose one with tensor="
            )
        ((name, table),) = fitting.items()
        if not table.isfinite().all() or not table.any():
            raise TrainingError(f"the table {name} of {self.path} is all zeros or has values that are not finite")
        weights: torch.Tensor = table.to(torch.float32)
        return weights


def pretrained(embeddings: Embeddings, trained: bool = True, **settings: Any) -> Transformer:
    """A Transformer that starts with token embeddings from a file."""
    return with_table(embeddings.read(settings.pop("vocabulary")), trained, **settings)


def experiment(
    name: str = "sentiment",
    *,
    phrases: int = PHRASES,
    epochs: int = 5,
    start: int = 5000,
    warmup: int = 500,
    seeds: int = 5,
    batch: int = BATCH,
    rate: float = 5e-5,
    network: Build | None = None,
    task: Any = None,
    measures: Alignment | None = None,
    precision: Precision = "bfloat16",
    average: float = 0.999,
) -> Experiment:
    """The recipe; `start` is the step at which FCL switches on."""
    steps = phrases // batch
    settings = {"width": 128, "layers": 3, "heads": 8, "feed_forward": 256, "max_length": 128, "dropout": 0.3}
    dropped, loss = PieceDropout(0.3), CrossEntropy()
    utility = RemovalUtility(memory=2**32)  # no graph is kept, so long sentences run in few chunks
    ramp = Ramp(0.5, start=start)
    contrast = FCL(utility, TopBottomFraction(0.1), Remove(), InfoNCE(temperature=0.02), ramp, loss=loss)
    return Experiment(
        name=name,
        title="Sentiment (section 4.1)",
        task=task or Phrases(None if phrases == PHRASES else phrases),
        network=network or Build(Transformer, num_classes=2, vocabulary=VOCABULARY, **settings),
        plan=Plan(
            epochs,
            batch,
            Adam(weight_decay=0.01),
            Cosine(rate, steps=epochs * steps, warmup=warmup),
            precision=precision,
            average=average,
        ),
        methods=(Method("XE", XE(loss), dropped), Method("FCL", contrast, dropped)),
        columns=_columns(),
        groups=(("XE", "FCL"),),
        seeds=seeds,
        paper={name: _paper(*numbers) for name, numbers in {"XE": (0.875, 0.6702), "FCL": (0.875, 0.7613)}.items()},
        class_names=("negative", "positive"),
        measures=measures or Alignment(),
        exhibits=Strips(),
    )


def _columns() -> tuple[Column, ...]:
    """Every statistic of sensitivity, then utility and the gradient; the record has more."""
    scores = {
        "r, all, raw": "sensitivity r, all, raw",
        "pooled r, all, raw": "sensitivity pooled r, all, raw",
        "r, test, raw": "sensitivity r, test, raw",
        "r, test, leaf": "sensitivity r, test, leaf",
        "rho, test, raw": "sensitivity rho, test, raw",
        "top-3, test, raw": "sensitivity top-3, test, raw",
        "utility r, test, raw": "utility r, test, raw",
        "gradient r, test, raw": "gradient r, test, raw",
    }
    return (Column("accuracy", ("test",)), *(Column(name, (score,)) for name, score in scores.items()))


def _paper(accuracy: float, correlation: float) -> dict[str, tuple[float, float | None]]:
    """The paper's "average Pearson correlation over the whole dataset" may be either of two columns."""
    return {"accuracy": (accuracy, None), "r, all, raw": (correlation, None), "pooled r, all, raw": (correlation, None)}


def sweeps(whole: Experiment) -> dict[str, Sweep]:
    """The sweeps in order: learning rate, then regularisation, with two seeds each; then the contrast."""
    grid = {"objective.contrast.temperature": TOKEN_TEMPERATURES, "objective.select.fraction": TOKEN_FRACTIONS}
    steps = {"plan.learning_rate.peak": (2.5e-5, 5e-5, 1e-4, 2e-4), "network.width": (64, 128, 256)}
    regularisation = {"augment.share": (0.2, 0.3, 0.4), "network.dropout": (0.1, 0.3, 0.5)}
    return {
        "xe": Sweep(whole, "XE", steps, seeds=2),
        "xe-regularisation": Sweep(whole, "XE", regularisation, seeds=2),
        "fcl": Sweep(whole, "FCL", grid, seeds=1),
        "fcl-alignment": Sweep(whole, "FCL", grid, score=(VALIDATION, "sensitivity r, dev, raw"), seeds=1),
    }


EXPERIMENT = experiment()
_SMALL = experiment(
    "sentiment-quick",
    phrases=3200,
    epochs=6,
    start=200,
    warmup=20,
    seeds=2,
    batch=64,
    rate=5e-4,
    network=Build(Transformer, num_classes=2, vocabulary=VOCABULARY, width=64, max_length=128, dropout=0.1),
    measures=Alignment(most=40, probes=4),
    precision="float32",
    average=0.98,
)
QUICK = replace(_SMALL, title=f"{_SMALL.title}, a quick look")
EXPERIMENTS = {"full": (EXPERIMENT,), "quick": (QUICK,)}
