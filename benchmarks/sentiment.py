"""The cost of an FCL step on sentences: XE and FCL of the sentiment recipe, by the engine and by a plain eager loop.

    python benchmarks/sentiment.py --device cuda --out results/benchmarks/sentiment-h200.json
    python benchmarks/sentiment.py --phrases 2560 --width 64          # two cores

Random word pieces in sentences as long as GLUE's phrases, in batches of 128. Counting a forward as 1 and a backward as
2, XE costs 3; FCL adds T sentences, each without one token, and three views with their backward: T + 9. So FCL may cost

    1.3 * (T + 9) / 3   XE steps,   T the mean number of tokens.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from places import present, some, to_write

from poise.data.loading.sentences import TokenLoader, tokens_of
from poise.objectives.objective import Objective
from poise.recipes.sentiment.treebank import EXPERIMENT, PHRASES, VOCABULARY
from poise.running.experiment import Build
from poise.running.record import surroundings
from poise.tokens import Tokens
from poise.training.average import Average
from poise.training.engine import Engine

BATCH = 128
HEADS = EXPERIMENT.network.settings["heads"]

# How many of GLUE's training phrases have 3, 4, ... word pieces, [CLS] and [SEP] included.
LENGTHS = [
    *(1978, 5322, 6064, 5345, 4748, 4155, 3713, 3267, 2947, 2650, 2413, 2138, 1950, 1777, 1661, 1515, 1373, 1285, 1132),
    *(1106, 1046, 909, 820, 806, 733, 692, 628, 538, 491, 442, 448, 400, 337, 304, 286, 242, 195, 203, 192, 155, 148),
    *(130, 89, 82, 85, 73, 55, 42, 50, 40, 36, 19, 21, 22, 15, 8, 6, 3, 2, 5, 5, 1, 2, 2),
]


def phrases(count: int, device: torch.device) -> TokenLoader:
    """Sentences of random pieces with lengths drawn from LENGTHS; the whole set has exactly these lengths."""
    state = np.random.RandomState(0)
    lengths = np.repeat(np.arange(len(LENGTHS)) + 3, LENGTHS)
    lengths = state.permutation(lengths)[:count]
    ids = state.randint(1000, VOCABULARY, (count, lengths.max())).astype(np.int32)
    ids[np.arange(lengths.max())[None] >= lengths[:, None]] = 0
    labels = torch.from_numpy(state.randint(0, 2, count)).to(device)
    return TokenLoader(tokens_of(ids, device), labels, BATCH, EXPERIMENT.methods[0].augment)


def by_engine(objective: Objective, data: TokenLoader, width: int) -> Callable[[int], object]:
    model, on_gpu = network(data, width), data.labels.device.type == "cuda"
    plan = replace(EXPERIMENT.plan, batch_size=BATCH, precision="bfloat16" if on_gpu else "float32")
    optimizer = plan.optimizer(model.parameters(), data.labels.device)
    return Engine(model, objective, data, optimizer, plan, Average(model, 0.999)).epoch


def plainly(objective: Objective, data: TokenLoader, width: int) -> Callable[[int], object]:
    """The simplest loop: batches in any order, padded to their longest sentence, which synchronises with the device."""
    model, device = network(data, width), data.labels.device
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    average, generator = Average(model, 0.999), torch.Generator(device)

    def epoch(number: int) -> None:
        model.train()
        order = torch.randperm(len(data.labels))[: len(data) * BATCH].view(-1, BATCH).to(device)
        for rows in order:
            x, y = data.batch(rows, generator)
            assert isinstance(x, Tokens)
            x = replace(x.cut(int(x.mask.sum(1).max())), most=None)
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = objective(model, x, y, 0)
            loss.total.backward()
            optimizer.step()
            average.update()

    return epoch


def network(data: TokenLoader, width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    settings = {**EXPERIMENT.network.settings, "width": width}
    return Build(EXPERIMENT.network.network, **settings)().to(data.labels.device)


def steps_per_second(epoch: Callable[[int], object], data: TokenLoader, epochs: int) -> float:
    """Steps per second without the first epoch, which captures."""
    epoch(0)
    wait(data.labels.device)
    begun = time.perf_counter()
    for number in range(1, epochs + 1):
        epoch(number)
    wait(data.labels.device)
    return epochs * len(data) / (time.perf_counter() - begun)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=present, default="cpu")
    parser.add_argument("--phrases", type=some, default=PHRASES)
    parser.add_argument("--width", type=some, default=256)
    parser.add_argument("--epochs", type=some, default=1)
    parser.add_argument("--out", type=to_write)
    arguments = parser.parse_args()
    if arguments.phrases < BATCH or arguments.width % HEADS:
        parser.error(
            f"--phrases must be at least a batch, {BATCH}, and --width a multiple of the number of heads, {HEADS}"
        )
    device = torch.device(arguments.device)
    data = phrases(min(arguments.phrases, sum(LENGTHS)), device)
    tokens = float(data.sentences.features.sum(1).float().mean())
    xe, fcl = (method.objective for method in EXPERIMENT.methods)
    objectives = {"XE": xe, "FCL": replace(fcl, weight=0.5)}  # type: ignore[type-var]
    rates: dict[str, dict[str, float]] = {}
    bound = 1.3 * (tokens + 9) / 3
    print(f"batch {BATCH}, T = {tokens:.2f} tokens, {len(data)} steps an epoch; steps per second")
    for way, begin in (("engine", by_engine), ("plain eager", plainly)):
        rates[way] = {}
        for name, objective in objectives.items():
            rates[way][name] = steps_per_second(begin(objective, data, arguments.width), data, arguments.epochs)
            print(f"  {way:12} {name:4} {rates[way][name]:9.1f}", flush=True)
        ratio = rates[way]["XE"] / rates[way]["FCL"]
        print(f"  {way:12} an FCL step is {ratio:.2f} XE steps; the bound is {bound:.2f}")
    if arguments.out is not None:
        memory = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        asked = {name: value for name, value in vars(arguments).items() if name != "out"}
        facts = {"tokens": tokens, "bound": bound, "steps_per_second": rates, "peak_memory": memory}
        arguments.out.write_text(json.dumps({**asked, **facts, **surroundings(device)}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
