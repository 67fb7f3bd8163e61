"""The table: every public name, how it is called, and which mistakes apply."""

from __future__ import annotations

from fuzz import oracles
from fuzz.recipes import Recipe, Slot, choice, number, switch, whole

# Names that are types only: nothing is called.
EXEMPT = {
    "benchmark": "takes seconds for a call: tests/evaluation/test_harness.py",
    "Classifier": "a protocol: what a model must have",
    "Input": "an alias: a tensor or Tokens",
    "Objective": "a protocol: the signature of objectives",
    "Schedule": "a protocol: a function of the step",
}

NOT_TENSORS = ("None", "object()", "torch.nn.Linear(2, 2)", "{'a': 1}", "'words'", "3", "print")

SEED = Slot(("torch.Generator().manual_seed($seed)",))
NEGATIVE = ("-0.5",)
PARTS = ("object()", "None", "{'a': 1}", "3", "'words'")

WRONG_COUNTS = ("0", "()", "[1]", "'12'", "None", "[1, 0]", "[1, -1]", "[1, float('nan')]", "['1', '2']", "[1, True]")

flat = Slot(
    ("torch.randn($B, $D)", "torch.randn($B, $D).mul(3)", "torch.randn(1, $D)[[0] * $B]"),
    (
        *("torch.randn($B, $D).numpy()", "torch.randn($B, $D).tolist()", "torch.randn($B, $D).double()"),
        *("torch.randn($B, $D).half()", "torch.zeros(0, $D)", "torch.full(($B, $D), float('nan'))"),
        *("torch.randint(9, ($B, $D))", "torch.randint(255, ($B, $D), dtype=torch.uint8)"),
        "torch.randn($B, $D).index_fill(1, torch.tensor([0]), float('inf'))",
    ),
    NOT_TENSORS,
    ("batch",),
)
tokens = Slot(
    ("sentences([$T, 2, $T, 3, 5][:$B])", "sentences([$T, 4, 6, 3, 5][:$B], special=True)"),
    (
        *("torch.randint(1, 20, ($B, $T))", "torch.randn($B, $T)", "[[1, 2, 3]] * $B", "'a sentence'"),
        *("sentences([3, 4, 5, 6, 7][:$B], vocabulary=900)", "sentences([3])[:0]"),
    ),
    NOT_TENSORS,
    ("Tokens", "ids", "batch"),
)
labels = Slot(
    ("torch.arange($B) % 3", "(torch.arange($B) % 3).int()", "torch.zeros($B, dtype=torch.int64)"),
    (
        *("torch.zeros($B, 1, dtype=torch.int64)", "torch.eye(3, dtype=torch.int64)[torch.zeros($B).long()]"),
        *("torch.arange($more) % 3", "torch.full(($B,), 3)", "torch.full(($B,), -1)", "torch.zeros($B)"),
        *("[0] * $B", "np.zeros($B, dtype='int64')", "torch.tensor(1)", "torch.zeros($B, 1)"),
        "torch.zeros($B, 7)",
    ),
    NOT_TENSORS,
    ("label", "labels", "class"),
)
smooth = Slot(
    ("Smooth($D)", "Smooth($D).eval()"),
    ("Plain($D, 3)", "plain($D, 3)"),
    ("None", "object()", "torch.zeros(3)", "'resnet'", "3"),
    ("embed",),
)
bag = Slot(("BagOfWords()",), ("torch.nn.Embedding(20, 3)", "plain(3, 3)"), smooth.absurd, ("embed",))


def _losses() -> list[Recipe]:
    logits = Slot(
        (
            "torch.randn($B, $L)",
            "torch.randn($B, $L).mul(30)",
            "torch.randn($B, $L).double()",
            "torch.randn($B, $L).half()",
        ),
        (
            *("torch.randn($B)", "torch.randn($B, $L).tolist()", "torch.randn($B, $L).numpy()"),
            *("torch.randint(5, ($B, $L))", "torch.randn($B, $L, 1)", "torch.zeros($B, 0)", "torch.zeros(0, $L)"),
        ),
        NOT_TENSORS,
        ("y",),
    )
    y = Slot(
        ("torch.arange($B) % 2", "(torch.arange($B) % $L).int()", "torch.rand($B, $L).softmax(1)"),
        (
            *(each for each in labels.mistakes if "7" not in each and "3)" not in each),
            *("torch.full(($B,), $L)", "torch.full(($B,), -100)", "torch.rand($B, $L + 1)", "-torch.rand($B, $L)"),
            "torch.full(($B, $L), float('nan'))",
        ),
        NOT_TENSORS,
        ("label",),
    )
    share = number("0.0", "$f", "0", mistakes=("-0.1", "1.5"))
    counts = Slot(
        ("[1 + c for c in range($L)]", "torch.ones($L)", "tuple(0.1 + c for c in range($L))"),
        (*WRONG_COUNTS, "[1] * ($L + 1)", "torch.ones(2, $L)", "torch.arange($L)"),
        ("object()", "torch.nn.Linear(2, 2)"),
    )
    return [
        Recipe(
            "LogitAdjusted",
            {"counts": counts, "tau": number("1.0", "0", "$f", mistakes=("-1",)), "logits": logits, "y": y},
            "poise.LogitAdjusted(counts, tau)(logits, y)",
            oracles.adjusted,
            wrong=(("poise.LogitAdjusted(counts, tau)(y, logits)", "logits|y"),),
        ),
        Recipe(
            "CrossEntropy",
            {"label_smoothing": share, "logits": logits, "y": y},
            "poise.CrossEntropy(label_smoothing)(logits, y)",
            oracles.cross_entropy,
            wrong=(("poise.CrossEntropy(label_smoothing)(y, logits)", "logits|y"),),
        ),
        Recipe(
            "CrossEntropy",
            {
                "label_smoothing": share,
                "logits": Slot(("torch.randn($B, 1)",)),
                "y": Slot(("torch.arange($B) % 2",), ("torch.full(($B,), 2)", "torch.rand($B, 1)"), (), ("label",)),
            },
            "poise.CrossEntropy(label_smoothing)(logits, y)",
            oracles.cross_entropy,
            share=0.2,
        ),
    ]


def _balance() -> list[Recipe]:
    classes = Slot(
        ("torch.arange($B) % 3", "[0] * $B", "np.arange($B) % 2", "(2, 1, 0)"),
        (
            *(
                "torch.rand($B)",
                "torch.eye(3)",
                "[]",
                "[0, -1]",
                "'01'",
                "3",
                "None",
                "['cat']",
                "[0.5]",
                "[[0], [1, 2]]",
            ),
            *("[True, 0.5]", "torch.zeros(2, 0)", "torch.tensor(1)"),
        ),
        ("object()", "torch.nn.Linear(2, 2)", "{'a': 1}"),
        ("label",),
    )
    count = whole("None", "1", "7", mistakes=("0", "-1"), none=True)
    loader = Slot(
        ("torch.utils.data.DataLoader([(torch.rand(2), c) for c in range($B)])",),
        ("torch.utils.data.DataLoader(torch.rand(4, 2))", "torch.utils.data.DataLoader([])"),
        (),
        ("label",),
    )
    return [
        Recipe(
            "class_counts",
            {"labels": classes, "num_classes": whole("None", "5", mistakes=("0", "-1"), none=True)},
            "poise.class_counts(labels, num_classes)",
            oracles.counts,
        ),
        Recipe("class_counts", {"labels": loader}, "poise.class_counts(labels)", oracles.anything, share=0.3),
        Recipe(
            "balanced_sampler",
            {"labels": classes, "count": count, "generator": SEED},
            "poise.balanced_sampler(labels, count, generator)",
            oracles.anything,
        ),
    ]


def _schedules() -> list[Recipe]:
    peak, step = number("1.0", "0", "$f"), whole("0", "3", "17", "1000", mistakes=("-1", "None"))
    later = whole("0", "2", "7")
    milestones = Slot(
        ("()", "(3,)", "[2, 9]", "(1, 5, 30)"),
        ("(9, 2)", "(2, 2)", "(-1,)", "(1.5,)", "5", "'39'", "('3',)", "torch.tensor([2.5])"),
        ("None", "object()", "print"),
    )
    return [
        Recipe("Constant", {"value": peak, "step": step}, "poise.Constant(value)(step)", oracles.constant),
        Recipe(
            "Ramp",
            {"peak": peak, "start": later, "length": later, "step": step},
            "poise.Ramp(peak, start, length)(step)",
            oracles.ramp,
        ),
        Recipe(
            "Steps",
            {"peak": peak, "milestones": milestones, "factor": number("0.1", "$f", "1"), "warmup": later, "step": step},
            "poise.Steps(peak, milestones, factor, warmup)(step)",
            oracles.steps,
        ),
        Recipe(
            "Exponential",
            {"initial": peak, "rate": number("0.97", "$f", mistakes=NEGATIVE), "every": whole("1", "5"), "step": step},
            "poise.Exponential(initial, rate, every)(step)",
            oracles.exponential,
        ),
        Recipe(
            "Cosine",
            {"peak": peak, "steps": whole("10", "50", mistakes=("0", "-4")), "warmup": later, "step": step},
            "poise.Cosine(peak, steps, warmup)(step)",
            oracles.cosine,
        ),
    ]


def _contrasts() -> list[Recipe]:
    def embedding(*others: str) -> Slot:
        return Slot(
            ("torch.randn($B, $E)", *others),
            (
                *("torch.randn($B, $E + 1)", "torch.randn($more, $E)", "torch.randn($E)", "torch.randn($B, 1)"),
                *("torch.randn($B, $E).tolist()", "torch.randn($B, $E).numpy()", "torch.randint(3, ($B, $E))"),
            ),
            tuple(each for each in NOT_TENSORS if each not in others),
            ("z", "near"),
        )

    mask = Slot(
        ("None", "torch.arange($B) > 0", "torch.ones($B, dtype=torch.bool)"),
        (
            *("torch.ones($B)", "torch.ones($B, dtype=torch.int64)", "[True] * $B", "torch.ones($B, 1) > 0", "True"),
            *("torch.ones($more) > 0", "np.ones($B, dtype=bool)"),
        ),
        ("object()", "torch.nn.Linear(2, 2)", "'words'"),
    )
    slots = {"z": embedding(), "near": embedding(), "far": embedding("None"), "keep": mask, "taking_part": mask}
    reduction = choice("mean", "sum")
    empty = "torch.zeros(0, 4)"
    return [
        Recipe(
            "InfoNCE",
            {"temperature": number("1.0", "$f", "2", mistakes=("0", "-1.0")), "reduction": reduction, **slots},
            "poise.InfoNCE(temperature, reduction)(z, near, far, keep=keep, taking_part=taking_part)",
            oracles.info_nce,
            wrong=((f"poise.InfoNCE(temperature, reduction)({empty}, {empty})", "z|examples"),),
        ),
        Recipe(
            "Margin",
            {
                "gamma": number("1.0", "$f", mistakes=("0", "-1.0")),
                "distance": choice("unit", "euclidean"),
                "reduction": reduction,
                **slots,
            },
            "poise.Margin(gamma, distance, reduction)(z, near, far, keep=keep, taking_part=taking_part)",
            oracles.margin,
            wrong=((f"poise.Margin(gamma)({empty}, {empty})", "z|examples"),),
        ),
    ]


def _selections() -> list[Recipe]:
    u = Slot(
        ("torch.rand($B, $D)", "torch.rand($B, 2, $D)", "torch.randint(3, ($B, $D)).float()"),
        (
            *("torch.rand($D)", "torch.rand($B, $D).tolist()", "torch.rand($B, $D).numpy()", "torch.rand($B, 1)"),
            *("torch.randint(3, ($B, $D))", "torch.rand($B, $D) > 0.5"),
        ),
        NOT_TENSORS,
        ("utility", "k", "features"),
    )
    valid = Slot(
        ("None", "torch.rand(u.shape) > 0.3"),
        ("torch.ones(u.shape)", "torch.ones(u.shape).tolist()", "torch.ones(2, 2) > 0", "np.ones(u.shape) > 0"),
        ("object()", "'words'", "3"),
    )
    wrong_generator = Slot(
        SEED.right, ("7", "'seed'", "np.random.default_rng(0)"), ("object()", "torch.nn.Linear(2, 2)")
    )
    k, per = whole("1", "2", mistakes=("-1", "0")), choice("value")
    count = {"k": k.but("900"), "per": per, "u": u, "valid": valid, "generator": wrong_generator}
    part = {"fraction": number("$f * 0.5", "0.5", mistakes=("0", "0.6", "-0.1")), **count}
    del part["k"]
    counted = "poise.{}(k, per)(u, valid if k != 900 else None, generator)"
    pixel = 'poise.TopBottom(1, "pixel")(u.flatten(1))'
    return [
        Recipe("TopBottom", count, counted.format("TopBottom"), oracles.selected, wrong=((pixel, "per|pixel"),)),
        Recipe("AtRandom", count, counted.format("AtRandom"), oracles.chosen_at_random),
        Recipe(
            "TopBottomFraction", part, "poise.TopBottomFraction(fraction, per)(u, valid, generator)", oracles.selected
        ),
        Recipe(
            "AtRandomFraction",
            part,
            "poise.AtRandomFraction(fraction, per)(u, valid, generator)",
            oracles.chosen_at_random,
        ),
    ]


def _perturbations() -> list[Recipe]:
    chosen = Slot(
        ("None", "torch.rand(x.shape) > 0.5", "torch.zeros(x.shape, dtype=torch.bool)"),
        (
            *("torch.rand(x.shape)", "torch.ones(x.shape, dtype=torch.int64)", "torch.ones(len(x), 1) > 0"),
            *("(torch.rand(x.shape) > 0.5).tolist()", "torch.ones(1, *x.shape) > 0", "np.ones(x.shape) > 0"),
        ),
        ("object()", "'words'", "3", "{'a': 1}"),
    )
    clip = Slot(
        ("None", "(0, 1)", "(-1.0, 2.0)"),
        ("(1, 0)", "(0,)", "(0, 1, 2)", "1", "'01'", "(0, float('nan'))", "('0', '1')", "(0, 0)", "True"),
        ("object()", "torch.nn.Linear(2, 2)"),
    )
    x = Slot(("torch.rand($B, $D)", "torch.rand($B, 3, 4, 4)", "torch.rand($B, $D).double()"), *_wrong_floats())
    removal = Slot(
        ("x.features & (torch.rand(x.ids.shape) > 0.5)", "torch.zeros_like(x.mask)"),
        (
            *("torch.rand(x.ids.shape)", "torch.ones(x.ids.shape, dtype=torch.int64)", "torch.ones(len(x), 1) > 0"),
            *("(torch.rand(x.ids.shape) > 0.5).tolist()", "torch.ones(1, *x.ids.shape) > 0"),
        ),
        NOT_TENSORS,
    )
    sentence = Slot(tokens.right, ("torch.randint(1, 20, ($B, $T))", "[[1, 2]]", "'text'"), NOT_TENSORS, ("Tokens",))
    how = choice("mask", "delete")
    return [
        Recipe(
            "Gaussian",
            {
                "sigma": number("0.1", "$f", "0", mistakes=("-1", "None")),
                "clip": clip,
                "x": x,
                "chosen": chosen,
                "generator": Slot(SEED.right, ("7", "'seed'"), ("object()",)),
            },
            "poise.Gaussian(sigma, clip)(x, chosen, generator)",
            oracles.perturbed,
        ),
        Recipe(
            "Remove", {"how": how, "x": sentence, "chosen": removal}, "poise.Remove(how)(x, chosen)", oracles.removed
        ),
    ]


def _wrong_floats() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Mistakes, absurdities and words of a tensor of floats that is followed by something of its shape."""
    mistakes = ("torch.randint(9, ($B, $D))", "torch.randint(255, ($B, $D), dtype=torch.uint8)", "sentences([3, 4])")
    return (
        (*mistakes, "torch.rand($B, $D).numpy()"),
        ("None", "'words'", "object()", "torch.nn.Linear(2, 2)"),
        ("tensor",),
    )


def _measures() -> list[Recipe]:
    memory = whole("2**20", "1", mistakes=("0", "1e9", "'1GB'", "-1"))
    at = Slot(("'embedding'", "'output'", "'body'"), ("'nowhere'", "''", "0", "None"), ("object()",), ("layer",))
    words_at = Slot(("'embedding'", "'output'", "'words'"), *(at.mistakes, at.absurd, at.words))
    how = choice("mask", "delete")
    jacobian = {
        "probes": whole("None", "1", "3", mistakes=("0", "-2"), none=True),
        "at": at,
        "memory": memory,
        "model": smooth,
        "x": flat,
        "generator": Slot(SEED.right, ("'seed'",), ()),
    }
    jacobian["generator"] = SEED
    alone = {"model": smooth, "x": flat, "y": labels}
    text = {"how": how, "memory": memory, "model": bag, "x": tokens, "y": labels}
    teacher = Slot(("Smooth($D)",), ("Plain($D, 3)", "poise.LeNet", "None", "'resnet'"), ("object()", "3"), ("embed",))
    utility = Slot(("poise.GradientUtility()",), ("poise.GradientUtility", "'gradient'", "None"), ("object()", "3"))
    parts = Slot(
        ("(poise.GradientUtility(), poise.GradientUtility(own_forward=True))",),
        (
            "(poise.GradientUtility(),)",
            "()",
            "poise.GradientUtility()",
            "(poise.GradientUtility, poise.GradientUtility)",
        ),
        ("None", "3", "object()"),
        ("weights",),
    )
    weights = Slot(
        ("(1, 2)", "(0.5, 0.0)", "[1.0, $f]"),
        ("(1,)", "(0, 0)", "(-1, 1)", "(float('nan'), 1)", "('1', '2')", "1.0", "'12'"),
        ("None", "object()"),
        ("weight",),
    )
    given = Slot(
        ("torch.rand(x.shape)", "torch.randn(x.shape)"),
        (
            *("torch.rand(len(x), 1)", "torch.rand(x.shape).tolist()", "torch.rand(x.shape).numpy()", "None"),
            *("torch.full(x.shape, 1j)", "torch.rand(1, *x.shape)"),
        ),
        ("object()", "'words'", "3"),
        ("utility",),
    )
    fcl = "poise.FCL(poise.GivenUtility(), poise.TopBottom(1), poise.Gaussian(0.1), poise.InfoNCE(1.0), 1.0)"
    plain_x = Slot(flat.right)
    return [
        Recipe(
            "JacobianSensitivity",
            jacobian,
            "poise.JacobianSensitivity(probes, at, memory)(model, x, generator)",
            oracles.jacobian,
            wrong=(("poise.JacobianSensitivity()(x, model)", "model|embed|x"),),
        ),
        Recipe(
            "RemovalSensitivity",
            {"how": how, "at": words_at, "memory": memory, "model": bag, "x": tokens},
            "poise.RemovalSensitivity(how, at, memory)(model, x)",
            oracles.like("x"),
        ),
        Recipe(
            "GradientUtility",
            {"own_forward": switch(), **alone},
            "poise.GradientUtility(own_forward)(model, x, y)",
            oracles.gradient,
            wrong=(("poise.GradientUtility()(model, y, x)", "x"),),
        ),
        Recipe("RemovalUtility", text, "poise.RemovalUtility(how, memory)(model, x, y)", oracles.like("x")),
        Recipe(
            "TeacherUtility",
            {"teacher": teacher, "utility": utility, **alone, "model": Slot(("Smooth($D)",))},
            "poise.TeacherUtility(teacher, utility=utility)(model, x, y)",
            oracles.like("x"),
        ),
        Recipe(
            "GivenUtility",
            {"model": Slot(("Smooth($D)",)), "x": plain_x, "y": Slot(labels.right), "given": given, "generator": SEED},
            f"{fcl}(model, x, y, 3, generator=generator, given=given)",
            oracles.loss,
            wrong=(("poise.GivenUtility()(model, x, y)", "given"),),
        ),
        Recipe(
            "EqualUtility",
            {"model": Slot(("Smooth($D)",)), "x": plain_x, "y": Slot(labels.right)},
            "poise.EqualUtility()(model, x, y)",
            oracles.like("x"),
            share=0.3,
        ),
        Recipe(
            "MixedUtility",
            {"parts": parts, "weights": weights, "drop_below": number("1e-12", "0", mistakes=NEGATIVE), **alone},
            "poise.MixedUtility(parts, weights, drop_below)(model, x, y)",
            oracles.like("x"),
        ),
        Recipe(
            "Estimate",
            {**jacobian},
            "poise.JacobianSensitivity(probes, at, memory).estimate(model, x, generator).value",
            oracles.jacobian,
            share=0.3,
        ),
    ]


def _objectives() -> list[Recipe]:
    model = Slot(smooth.right, *(smooth.mistakes, smooth.absurd, smooth.words))
    step = Slot(
        ("None", "0", "3"), ("-1", "2.5", "'3'", "float('nan')", "True", "torch.tensor(2.5)"), ("object()", "print")
    )
    batch = {"model": model, "x": flat, "y": labels, "step": step, "generator": SEED}
    call = "(model, x, y, step, generator=generator)"
    weight = Slot(
        ("1.0", "$f", "poise.Constant(0.5)", "poise.Ramp(1.0)"),
        (
            "-1.0",
            "float('nan')",
            "'1'",
            "None",
            "True",
            "poise.Constant(-1.0)",
            "poise.Constant",
            "lambda step: float('nan')",
        ),
        ("object()", "[]", "{'a': 1}"),
    )
    statistics = choice("running", "batch", "moving")
    loss = Slot(
        ("poise.CrossEntropy()",),
        ("torch.nn.CrossEntropyLoss()", "poise.CrossEntropy", "'xe'", "None"),
        ("object()", "3"),
    )
    plain_y = Slot(
        labels.right[::2], tuple(each for each in labels.mistakes if "-1" not in each), labels.absurd, labels.words
    )

    def part(right: str, *more: str) -> Slot:
        kind = right.split("(")[0]
        return Slot((right, *more), (kind, f"'{kind}'"), PARTS)

    noise = part("poise.Gaussian(0.1)", "poise.Gaussian($f, (-3.0, 3.0))")
    contrast = part("poise.InfoNCE(1.0)", "poise.Margin(1.0)")
    no_step = "schedule|step"
    fcl = {
        "utility": part("poise.GradientUtility()"),
        "select": part("poise.TopBottom(1)", "poise.TopBottomFraction(0.3)").but("poise.TopBottom(90)"),
        "perturb": noise.but("poise.Remove()"),
        "contrast": contrast,
        "weight": weight,
        "statistics": statistics,
        "loss": loss,
        "drop_below": number("1e-12", "0", mistakes=NEGATIVE),
    }
    fcl["select"] = Slot(fcl["select"].right, fcl["select"].mistakes, PARTS, ("k",))
    fcl["perturb"] = Slot(fcl["perturb"].right, fcl["perturb"].mistakes, PARTS, ("Remove",))
    text_fcl = (
        "poise.FCL(poise.RemovalUtility(), poise.TopBottomFraction(0.2), poise.Remove(), poise.InfoNCE(1.0), 1.0)"
    )
    pictured = Slot(
        ("torch.rand($B, 3, 8, 8)",),
        (
            *("torch.rand($B, 3, 8, 8) * 255", "torch.rand($B, 192)", "torch.rand($B, 3, 8, 8).numpy()"),
            *("torch.randint(255, ($B, 3, 8, 8), dtype=torch.uint8)", "torch.rand(0, 3, 8, 8)"),
            *("torch.full(($B, 3, 8, 8), float('nan'))", "torch.rand($B, 3, 8, 8).double()", "sentences([3, 4])"),
        ),
        NOT_TENSORS,
        ("images", "batch"),
    )
    return [
        Recipe(
            "XE",
            {"loss": loss, **batch, "y": plain_y},
            f"poise.XE(loss){call}",
            oracles.xe,
            wrong=(
                ("poise.XE(loss)(model, y, x)", "x|y"),
                ("poise.XE(loss)(x, model, y)", "model|embed|x"),
                ("poise.XE(loss)(model, x)", "y"),
                ("poise.XE()(model, x, torch.full(($B,), -1))", "label"),
            ),
        ),
        Recipe(
            "XEGaussian",
            {"perturb": noise, "weight": weight, "statistics": statistics, **batch},
            f"poise.XEGaussian(perturb, weight, statistics){call}",
            oracles.loss,
            wrong=(("poise.XEGaussian(perturb, poise.Ramp(1.0, 2, 5))(model, x, y)", no_step),),
        ),
        Recipe(
            "CLGaussian",
            {"perturb": noise, "contrast": contrast, "weight": weight, "statistics": statistics, **batch},
            f"poise.CLGaussian(perturb, contrast, weight, statistics){call}",
            oracles.loss,
            wrong=(("poise.CLGaussian(perturb, contrast, poise.Ramp(1.0, 2, 5))(model, x, y)", no_step),),
        ),
        Recipe(
            "FCL",
            {**fcl, **batch, "y": plain_y},
            f"poise.FCL(utility, select, perturb, contrast, weight, statistics, loss, drop_below){call}",
            oracles.loss,
            wrong=(
                ("poise.FCL(utility, select, perturb, contrast, poise.Ramp(1.0, 2, 5))(model, x, y)", no_step),
                ("poise.FCL(utility, perturb, select, contrast, weight)(model, x, y)", "select|perturb|k"),
                ("poise.FCL(utility, select, perturb, weight, contrast)(model, x, y, 1)", "contrast"),
            ),
        ),
        Recipe(
            "FCL",
            {"model": bag, "x": tokens, "y": labels, "step": step, "generator": SEED},
            f"{text_fcl}{call}",
            oracles.loss,
            share=0.5,
        ),
        Recipe(
            "FCL",
            {
                "model": Slot(("ConvNet(num_classes=3)", "ConvNet(num_classes=3).eval()")),
                "statistics": statistics,
                "x": Slot(pictured.right, pictured.mistakes[1:], pictured.absurd, (*pictured.words, "per")),
                "y": labels,
                "generator": SEED,
            },
            "poise.FCL(poise.GradientUtility(), poise.TopBottom(2, 'pixel'), poise.Gaussian(0.1), poise.InfoNCE(1.0), "
            "1.0, statistics)(model, x, y, 3, generator=generator)",
            oracles.loss,
            trains=True,
        ),
        Recipe(
            "balanced_contrast",
            {
                "counts": Slot(("(5, 3, 1)", "torch.tensor([5, 3, 1])"), (*WRONG_COUNTS, "(5, 3)"), ("object()",)),
                "weight": weight,
                "share": number("0.3", "0.5", mistakes=("0", "0.6", "-1")),
                "perturb": Slot(noise.right, (*noise.mistakes, "poise.Remove()"), noise.absurd, ("Remove",)),
                "temperature": number("0.1", "$f", mistakes=("0", "-1")),
                "tau": number("1.0", "0", mistakes=("-1",)),
                **batch,
            },
            "poise.balanced_contrast(counts, weight, share=share, perturb=perturb, temperature=temperature, tau=tau)"
            f"{call}",
            oracles.loss,
            wrong=(("poise.balanced_contrast(counts, poise.Ramp(1.0, 2, 5))(model, x, y)", no_step),),
        ),
        Recipe(
            "JensenShannon",
            {
                "objective": part("poise.XE()"),
                "mix": part("poise.AugMix(width=1, depth=1)", "poise.GaussianNoise(0.1)"),
                "strength": number("12.0", "0", mistakes=("-1",)),
                "model": Slot(("ConvNet(num_classes=3)",), ("plain(192, 3)",), ("None", "3"), ("embed",)),
                "x": pictured,
                "y": labels,
                "generator": SEED,
            },
            "poise.JensenShannon(objective, mix, strength)(model, x, y, generator=generator)",
            oracles.loss,
            trains=True,
        ),
        Recipe(
            "SAM",
            {
                "objective": part("poise.XE()"),
                "rho": number("0.05", "0", mistakes=("-1",)),
                **batch,
            },
            f"poise.SAM(objective, rho){call}",
            oracles.loss,
        ),
        Recipe(
            "TrainStep",
            {
                "model": Slot(("Smooth($D)",), ("poise.LeNet", "'lenet'", "Plain($D, 3)"), ("None", "3"), ("embed",)),
                "objective": Slot(("poise.XE()",), ("poise.XE", "'xe'", "None"), ("3", "object()")),
                "x": flat,
                "y": labels,
                "step": step,
            },
            "poise.TrainStep(model, objective)(x, y, step)",
            oracles.loss,
            wrong=(
                ("poise.TrainStep(objective, model)(x, y)", "model|objective"),
                ("poise.TrainStep(model, objective)(x, y, generater=None)", "generater"),
            ),
        ),
        Recipe(
            "Loss",
            {"model": Slot(("Smooth($D)",)), "x": Slot(flat.right), "y": Slot(labels.right)},
            "poise.XE()(model, x, y)",
            oracles.xe,
            share=0.2,
        ),
        Recipe(
            "Forward",
            {
                "model": Slot(("Smooth($D)",)),
                "x": Slot(("torch.randn($B, $D).requires_grad_()",)),
                "y": Slot(labels.right),
            },
            "poise.GradientUtility()(model, x, y, forward=poise.Forward(x, model.embed(x), model(x), "
            "poise.CrossEntropy()(model(x), y)))",
            oracles.gradient,
            share=0.3,
        ),
    ]


def _text() -> list[Recipe]:
    ids = Slot(
        ("torch.randint(1, 20, ($B, $T))", "torch.randint(1, 20, ($B, $T)).int()"),
        (
            *(
                "torch.rand($B, $T)",
                "[[1, 2, 3]] * $B",
                "np.ones(($B, $T), dtype='int64')",
                "torch.randint(1, 20, ($T,))",
            ),
            *(
                "torch.ones($B, $T) > 0",
                "torch.randint(1, 20, ($B, $T, 1))",
                "'a sentence'",
                "torch.full(($B, $T), 1j)",
            ),
        ),
        NOT_TENSORS,
    )
    flags = Slot(
        ("torch.rand(ids.shape) > 0.2", "(torch.rand(ids.shape) > 0.2).long()"),
        (
            *("torch.rand(ids.shape)", "torch.ones(len(ids), 1) > 0", "[[True] * $T] * $B", "ids + 5"),
            *("torch.ones(ids.shape[1]) > 0", "np.ones(ids.shape) > 0"),
        ),
        ("object()", "'words'", "3"),
    )
    mask = Slot(flags.right, (*flags.mistakes, "None"), flags.absurd)
    special = Slot(("None", *flags.right), flags.mistakes, flags.absurd)
    return [
        Recipe(
            "Tokens",
            {
                "ids": ids,
                "mask": Slot(mask.right, mask.mistakes, mask.absurd),
                "special": special,
                "pad": whole("0", "3", mistakes=("None",)),
                "most": whole("None", "$T", none=True),
            },
            "poise.Tokens(ids, mask, special, pad, most).features",
            oracles.anything,
            wrong=(("poise.Tokens(mask, ids)", "ids|mask"),),
        )
    ]


def _networks() -> list[Recipe]:
    count = whole("3", "10", mistakes=("0", "-1", "None"))
    blocks = Slot(
        ("[(1, 4, 1)]", "((1, 4, 1), (1, 8, 2))"),
        (
            "[]",
            "[(1, 4)]",
            "[(1, 4, 0)]",
            "[(0, 4, 1)]",
            "(1, 4, 1)",
            "3",
            "[(1, 4.5, 1)]",
            "[('1', 4, 1)]",
            "[(1, -4, 1)]",
        ),
        ("None", "object()", "'words'"),
    )
    mean = Slot(
        ("(0.5, 0.5, 0.5)", "[0.1, 0.2, 0.3]"),
        ("(0.5,)", "0.5", "'0.5'", "(0.5, float('nan'), 0.5)", "('a', 'b', 'c')", "()"),
        ("None", "object()"),
        ("channel", "std"),
    )
    std = Slot(mean.right, (*mean.mistakes, "(0.0, 1.0, 1.0)", "(-1.0, 1.0, 1.0)"), mean.absurd, ("mean",))
    side = Slot(
        ("torch.rand($B, 3, 16, 16)", "torch.rand(1, 3, 16, 16)"),
        (
            *("torch.randint(255, ($B, 3, 16, 16), dtype=torch.uint8)", "torch.rand($B, 3, 16, 16).double()"),
            *("torch.rand($B, 1, 16, 16)", "torch.rand(3, 16, 16)", "torch.rand($B, 16, 16, 3)", "torch.rand($B, 768)"),
            *(
                "torch.rand($B, 3, 16, 16).numpy()",
                "torch.randint(255, ($B, 3, 16, 16))",
                "torch.rand($B, 3, 16, 16) > 0",
            ),
            *("[torch.rand(3, 16, 16)]", "sentences([3, 4])"),
        ),
        NOT_TENSORS,
        ("pictures",),
    )
    pair = ("(3,)", "3", "(3, 0)", "(2.5, 3)", "('3', '4')", "(3, 4, 5)", "(-1, 3)")
    lenet = {
        "num_classes": count,
        "in_channels": whole("1", "3", mistakes=("0", "-1")),
        "size": whole("16", "20", mistakes=("8", "15", "-28")),
        "maps": Slot(("(2, 3)", "[3, 2]"), pair, ("None", "object()")),
        "units": Slot(("(4, 5)",), pair, ("None", "object()")),
    }
    text = {
        "num_classes": count,
        "vocabulary": whole("20", "30", mistakes=("0", "-1")),
        "width": whole("8", "16", mistakes=("0", "9", "-8")),
        "layers": whole("1", "2", mistakes=("-1", "0")),
        "heads": whole("2", "4", mistakes=("0", "3", "-1")),
        "feed_forward": whole("4", mistakes=("0", "-1")),
        "max_length": whole("16", mistakes=("0", "-1")),
        "dropout": number("0.0", "0.1", mistakes=("-0.1", "1.5")),
        "table_width": whole("None", "6", mistakes=("0", "-1"), none=True),
    }
    small = "[(1, 4, 1), (1, 8, 2)]"
    read = Slot(
        tokens.right,
        (*tokens.mistakes[:-1], "sentences([40, 3])", "poise.Tokens(-torch.ones(2, 3).long(), torch.ones(2, 3) > 0)"),
        NOT_TENSORS,
        ("Tokens", "ids", "max_length"),
    )
    recipes = [
        Recipe("LeNet", lenet, "poise.LeNet(num_classes, in_channels, size, maps, units)", oracles.network, draws=True),
        Recipe(
            "LeNet",
            {
                "model": Slot(("poise.LeNet(4, 3, 16)",)),
                "x": side.but("torch.rand($B, 3, 20, 20)", "torch.rand($B, 3, 16, 16).half()"),
            },
            "model(x)",
            oracles.classes(4),
        ),
        Recipe(
            "Transformer",
            text,
            "poise.Transformer(num_classes, vocabulary, width, layers, heads, feed_forward, max_length, dropout, "
            "table_width)",
            oracles.network,
            draws=True,
        ),
        Recipe(
            "Transformer",
            {"model": Slot(("poise.Transformer(4, 20, 8, 1, 2, 8, 16, 0.0)",)), "x": read},
            "model(x)",
            oracles.classes(4),
        ),
    ]
    for kind in ("ResNet", "ResNetV2"):
        built = {"num_classes": count, "blocks": blocks, "mean": mean, "std": std}
        recipes += [
            Recipe(kind, built, f"poise.{kind}(num_classes, blocks, mean, std)", oracles.network, draws=True),
            Recipe(
                kind,
                {"model": Slot((f"poise.{kind}(4, {small}).eval()",)), "x": side},
                "model(x)",
                oracles.classes(4),
            ),
        ]
    for name, cost in (("resnet56", 0.05), ("resnet_v2_50", 0.01)):
        recipes.append(
            Recipe(name, {"num_classes": count}, f"poise.{name}(num_classes)", oracles.network, draws=True, share=cost)
        )
    return recipes


def _splits() -> list[Recipe]:
    model = Slot(
        ("Plain($D, 3)", "plain($D, 3)"),
        ("poise.LeNet", "lambda x: x", "torch.zeros(3)", "nn.Flatten()", "nn.Sequential()"),
        ("None", "3", "object()", "'resnet'"),
        ("Linear",),
    )
    head = Slot(
        ("None", "'fc' if hasattr(model, 'fc') else '3'"),
        ("'nowhere'", "''", "3", "nn.Linear(6, 3)"),
        ("object()",),
        ("layer", "Linear"),
    )
    call = Slot(("call_model", "lambda model, x: model(x)"), ("'model'", "3", "None"), ("object()",))
    x = Slot(
        flat.right,
        tuple(each for each in flat.mistakes if "nan" not in each and "inf" not in each),
        NOT_TENSORS,
        flat.words,
    )
    whole_x = Slot(flat.right)
    return [
        Recipe(
            "split",
            {"model": model, "head": head, "call": call, "x": x},
            "poise.split(model, head, call).embed(x)",
            oracles.finite,
        ),
        Recipe(
            "SplitClassifier",
            {
                "model": Slot(("Plain($D, 3)",), ("poise.LeNet", "'resnet'"), ("None", "3")),
                "head_name": Slot(("'fc'",), ("'nowhere'", "3", "None", "'body.fc'"), ("object()",), ("layer",)),
                "x": whole_x,
            },
            "poise.SplitClassifier(model, head_name)(x)",
            oracles.classes(3),
        ),
    ]


def _files() -> list[Recipe]:
    settings = "num_classes=3, size=16"
    return [
        Recipe(
            "load_model",
            {
                "path": Slot(
                    ("saved()",),
                    ("'/nowhere/at.all'", "3", "None", "poise.__file__", "''", "poise.LeNet(3)"),
                    ("object()",),
                    ("nowhere", "does not contain"),
                ),
                "device": Slot(("'cpu'", "torch.device('cpu')"), ("'gpu'", "3.5", "None", "'cuda:99'"), ("object()",)),
            },
            "poise.load_model(path, device)",
            oracles.network,
            draws=True,
            share=0.3,
        ),
        Recipe(
            "save_model",
            {
                "model": Slot(
                    ("poise.LeNet(3, size=16)",),
                    ("poise.LeNet(4, size=16)", "None", "'LeNet'", "poise.LeNet", "nn.Linear(2, 2)"),
                    ("3",),
                ),
                "path": Slot(("saved() + '.copy'",), ("3", "None", "''"), ("object()",)),
                "network": Slot(("'LeNet'",), ("'lenet'", "None", "poise.LeNet", "'resnet56'"), ("3",)),
                "size": Slot(("16",), ("28", "None", "object()", "'16'"), (), ("settings", "weights")),
            },
            "poise.save_model(model, path, network, num_classes=3, size=size) or poise.load_model(path)",
            oracles.network,
            wrong=(
                (f"poise.save_model(path, model, network, {settings})", "model|path"),
                ("poise.save_model(model, path, network)", "settings|num_classes"),
                ("poise.save_model(model, path, network, classes=3)", "settings|classes"),
            ),
            draws=True,
            share=0.1,
        ),
    ]


def _augmentations() -> list[Recipe]:
    x = Slot(
        (
            "torch.rand($B, 3, 8, 8)",
            "torch.rand($B, 1, 8, 6)",
            "torch.rand($B, 3, 8, 8).double()",
            "torch.rand($B, 3, 8, 8).half()",
        ),
        (
            *(
                "torch.rand($B, 3, 8, 8) * 255",
                "torch.randint(255, ($B, 3, 8, 8), dtype=torch.uint8)",
                "torch.rand($B, 64)",
            ),
            *("torch.full(($B, 3, 8, 8), float('nan'))", "torch.rand($B, 3, 8, 8).numpy()", "torch.rand(3, 8, 8)"),
            *(
                "torch.randn($B, 3, 8, 8) * 3",
                "[torch.rand(3, 8, 8)]",
                "sentences([3, 4])",
                "torch.randint(2, ($B, 3, 8, 8))",
            ),
        ),
        NOT_TENSORS,
        ("images",),
    )
    free = Slot(
        x.right,
        tuple(each for each in x.mistakes if "255" not in each[-4:] and "nan" not in each and "* 3" not in each),
        x.absurd,
        x.words,
    )
    any_generator = Slot(SEED.right, ("7", "'seed'"), ("object()",))
    sigma = number("0.1", "$f", "0", mistakes=("-1", "None"))
    last = {"x": x, "generator": any_generator}
    return [
        Recipe(
            "Standard",
            {"padding": whole("0", "2", "4"), "flip": switch(), "x": free, "generator": any_generator},
            "poise.Standard(padding, flip)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "PatchGaussian",
            {"size": whole("1", "3", "40", mistakes=("0", "-2")), "sigma": sigma, "random_size": switch(), **last},
            "poise.PatchGaussian(size, sigma, random_size)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "GaussianNoise",
            {"sigma": sigma, "fraction": number("0.5", "$f", "1", mistakes=("-0.1", "1.5")), **last},
            "poise.GaussianNoise(sigma, fraction)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "AugMix",
            {
                "severity": number("3.0", "1", "10", mistakes=("0", "11", "-3")),
                "width": whole("1", "2", mistakes=("0", "-1")),
                "depth": whole("1", "2", mistakes=("0", "-1")),
                **last,
            },
            "poise.AugMix(severity, width, depth)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "RandAugment",
            {
                "count": whole("1", "2", mistakes=("0", "-1")),
                "magnitude": whole("9", "0", mistakes=("31", "-1")),
                "bins": whole("31", "10", mistakes=("1", "0")),
                **last,
            },
            "poise.RandAugment(count, magnitude, bins)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "TrivialAugment",
            {"bins": whole("31", "2", mistakes=("1", "0")), **last},
            "poise.TrivialAugment(bins)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "PRIME",
            {
                "width": whole("1", "2", mistakes=("0", "-1")),
                "depth": whole("1", "2", mistakes=("0", "-1")),
                "sigma": number("4.0", "0", mistakes=("-1",)),
                "cut": whole("100", "3", mistakes=("2", "-1")),
                "color": number("0.01", "0", mistakes=("-1",)),
                **last,
            },
            "poise.PRIME(width, depth, sigma, cut, color)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "PixMix",
            {
                "rounds": whole("2", "0", mistakes=("-1",)),
                "beta": number("3.0", "1", mistakes=("0", "-1")),
                "severity": number("3.0", "10", mistakes=("0", "11")),
                "fractals": whole("2", "3", mistakes=("0", "-1")),
                **last,
            },
            "poise.PixMix(rounds, beta, severity, fractals)(x, generator)",
            oracles.pictures,
        ),
        Recipe(
            "Chain",
            {
                "parts": Slot(
                    ("(poise.Standard(2), poise.GaussianNoise(0.1))", "[poise.PatchGaussian(3, 0.1)]"),
                    ("poise.Standard()", "(poise.Standard,)", "('standard',)", "None", "3"),
                    ("object()",),
                ),
                **last,
            },
            "poise.Chain(parts)(x, generator)",
            oracles.pictures,
        ),
    ]


def _corruptions() -> list[Recipe]:
    name = Slot(
        (
            "'gaussian_noise'",
            "'contrast'",
            "'pixelate'",
            "'brightness'",
            "'jpeg_compression'",
            "'saturate'",
            "'shot_noise'",
        ),
        ("'gaussian'", "'Fog'", "''", "3", "None", "['fog']"),
        ("object()", "[[]]"),
        ("corruption",),
    )
    severity = whole("1", "3", "5", mistakes=("0", "6", "-1", "None", "3.0"))
    profile = Slot(("'cifar'", "'tiny'"), ("'CIFAR'", "'mnist'", "3", "''"), ("object()", "[[]]"))
    libraries = choice("today", "2018")
    jpeg = whole("None", "85", mistakes=("0", "101"), words=("quality",), none=True)
    images = Slot(
        (
            "torch.rand($B, 3, 16, 16)",
            "torch.randint(256, ($B, 3, 16, 16), dtype=torch.uint8)",
            "torch.rand($B, 3, 16, 16).double()",
        ),
        (
            *(
                "torch.rand($B, 3, 16, 16) * 255",
                "torch.rand($B, 1, 16, 16)",
                "torch.rand($B, 16, 16, 3)",
                "torch.rand($B, 3, 8, 8)",
            ),
            *("torch.rand($B, 3, 16, 16).numpy()", "torch.full(($B, 3, 16, 16), float('nan'))", "torch.rand(16, 16)"),
            *("torch.randint(256, ($B, 3, 16, 16))", "torch.randn($B, 3, 16, 16)", "[torch.rand(3, 16, 16)]"),
        ),
        NOT_TENSORS,
    )
    index = Slot(
        ("None", "list(range(len(images)))", "torch.arange(len(images))"),
        ("[0.5] * len(images)", "[1]", "torch.arange(9)", "'01'", "[[0]] * len(images)", "[True] * len(images)", "3.5"),
        ("object()", "{'a': 1}"),
    )
    memory = whole("None", "2**20", "1", mistakes=("0", "-1", "1e9", "'1GB'"), none=True)
    one = Slot(
        ("torch.rand(3, 16, 16)", "Image.new('RGB', (16, 20))", "torch.randint(256, (3, 16, 16), dtype=torch.uint8)"),
        (
            *(
                "torch.rand($B, 3, 16, 16)",
                "torch.rand(3, 16, 16) * 255",
                "torch.rand(3, 16, 16).numpy()",
                "torch.rand(1, 16, 16)",
            ),
            *("torch.rand(16, 16, 3)", "torch.full((3, 16, 16), float('nan'))", "torch.randint(256, (3, 16, 16))"),
            *("Image.new('RGB', (8, 8))", "torch.rand(16, 16)"),
        ),
        NOT_TENSORS,
        ("image", "images"),
    )
    settings = {"name": name, "severity": severity, "profile": profile, "libraries": libraries}
    one_number = whole("None", "4", mistakes=("[1, 2]", "'0'"), none=True)
    one_number = Slot(one_number.right, tuple(each for each in one_number.mistakes if each != "[2]"), one_number.absurd)
    return [
        Recipe("Corruption", settings, "poise.Corruption(name, profile, libraries).at(severity)", oracles.anything),
        Recipe(
            "corrupt",
            {
                "images": images,
                **settings,
                "seed": whole("0", "$seed", mistakes=("None",)),
                "index": index,
                "jpeg": jpeg,
                "memory": memory,
            },
            "poise.corrupt(images, name, severity, profile, seed=seed, index=index, "
            "libraries=libraries, jpeg=jpeg, memory=memory)",
            oracles.corrupted,
            wrong=(
                ("poise.corrupt(name, images, severity, profile)", "images"),
                ("poise.corrupt(images, severity, name, profile)", "corruption|name"),
                ("poise.corrupt(torch.zeros(2, 3, 20, 20), name, severity)", "profile"),
            ),
            share=0.5,
        ),
        Recipe(
            "Corrupt",
            {
                **settings,
                "seed": whole("0", "$seed", mistakes=("None",)),
                "jpeg": jpeg,
                "images": one,
                "index": one_number,
            },
            "poise.Corrupt(name, severity, profile, seed, libraries, jpeg)(images, index)",
            oracles.corrupted,
            share=0.5,
        ),
    ]


def _robustness() -> list[Recipe]:
    model = Slot(
        ("plain(768, 3)", "ConvNet(num_classes=3)", "lambda x: x.flatten(1)[:, :3]"),
        (
            "'resnet'",
            "None",
            "poise.LeNet",
            "lambda x: x.mean()",
            "lambda x: [x]",
            "lambda x: x.flatten(1)[:1, :3]",
            "plain(768, 3).double()",
        ),
        ("object()", "3"),
        ("logits", "weights"),
    )
    pair = "(torch.rand($B, 3, 16, 16), {})"
    good = "torch.arange($B) % 3"
    pictures = (
        *(
            "torch.rand($B, 3, 16, 16) * 255",
            "torch.rand($B, 1, 16, 16)",
            "torch.rand(0, 3, 16, 16)",
            "torch.rand($B, 3, 8, 8)",
        ),
        *(
            "torch.full(($B, 3, 16, 16), float('nan'))",
            "torch.rand($B, 3, 16, 16).numpy()",
            "torch.randint(255, ($B, 3, 16, 16))",
        ),
        *("torch.rand($B, 16, 16, 3)", "torch.randn($B, 3, 16, 16)"),
    )
    wrong_labels = (
        *("torch.zeros($B, 1, dtype=torch.int64)", "torch.zeros($B)", "torch.full(($B,), -1)", "torch.full(($B,), 3)"),
        *(
            "torch.eye(3).long()[torch.zeros($B).long()]",
            "[0] * $B",
            "torch.arange($more) % 3",
            "torch.arange($B) % 3 > 0",
        ),
    )
    data = Slot(
        (pair.format(good), "(torch.randint(256, ($B, 3, 16, 16), dtype=torch.uint8), torch.zeros($B).int())"),
        (
            *(pair.format(each) for each in wrong_labels),
            *(f"({each}, ({good})[:len({each})])" for each in pictures),
            *(
                "'cifar10'",
                "torch.rand($B, 3, 16, 16)",
                "(torch.arange(2), torch.rand(2, 3, 16, 16))",
                "[(torch.rand(2, 3, 16, 16), 0)]",
            ),
        ),
        ("None", "3", "object()"),
        ("images", "labels", "label"),
    )
    names = Slot(
        ("['brightness']", "('contrast', 'pixelate')", "['brightness', 'brightness']"),
        ("'fog'", "[]", "['fogg']", "None", "[3]", "'all'"),
        ("3", "object()"),
        ("corruption",),
    )
    levels = Slot(
        ("[1]", "(5, 2)"), ("3", "[]", "[0]", "[6]", "['1']", "[1.0]", "None", "'12'"), ("object()",), ("severity",)
    )
    maybe = {"none": True}
    settings = {
        "corruptions": names,
        "severities": levels,
        "profile": Slot(("'cifar'",), ("'CIFAR'", "3", "''"), ("object()",)),
        "seed": whole("0", "$seed", mistakes=("None",)),
        "libraries": choice("today", "2018"),
        "jpeg": whole("None", "85", mistakes=("0", "101"), words=("quality",), **maybe),
        "limit": whole("None", "2", mistakes=("0", "-1"), **maybe),
        "batch_size": whole("1000", "2", mistakes=("0", "-1", "1e3")),
        "device": Slot(("None", "'cpu'"), ("'gpu'", "3.5", "'cuda:99'"), ("object()",)),
        "source": choice("auto", "generated"),
        "progress": Slot(("None", "lambda *a: None"), ("True", "'bar'", "3"), ("object()",)),
        "rare": Slot(("()", "data[1][:1].tolist()"), ("[99]", "0", "[-1]", "['cat']", "'0'", "None"), ("object()",)),
        "twins": Slot(
            ("None", "(data[0].flip(0), data[1])"),
            ("data[0]", "(data[0][:0], data[1][:0])", "(data[0], data[1][:-1])", "'cifar10-c'", "3"),
            ("object()",),
            ("labels", "images"),
        ),
    }
    options = ", ".join(f"{each}={each}" for each in settings)
    robust = "poise.Robustness('given', 4, 'generated', 0.5, {'fog': {1: 0.5, 2: 0.25}, 'snow': {1: 1.0}})"
    return [
        Recipe(
            "evaluate",
            {"model": model, "data": data, **settings},
            f"poise.evaluate(model, data, {options})",
            oracles.accuracies,
            wrong=(
                (f"poise.evaluate(data, model, {options})", "model|data"),
                (
                    "poise.evaluate(model, (torch.zeros(2, 3, 20, 20), torch.tensor([0, 1])), corruptions=['fog'])",
                    "profile",
                ),
                ("poise.evaluate(model, data, memory=1e9)", "memory"),
            ),
            share=0.3,
        ),
        Recipe(
            "Robustness",
            {"name": Slot(("'fog'",), ("'fogg'", "'frost'", "3", "None"), ("object()", "[[]]"), ("corruption",))},
            f"{robust}.of(name)",
            lambda values, result: oracles.close(result, 0.375),
            share=0.2,
        ),
        Recipe(
            "Robustness",
            {
                "names": Slot(
                    ("['fog', 'snow']",), ("'fog'", "3", "['fogg']", "[]", "None"), ("object()",), ("corruption",)
                )
            },
            f"{robust}.mean(names)",
            lambda values, result: oracles.close(result, 0.6875),
            share=0.2,
        ),
    ]


def _audits() -> list[Recipe]:
    model = Slot(
        ("Smooth(6)", "Plain(6, 3)"),
        ("'resnet'", "None", "poise.LeNet", "nn.Flatten()"),
        ("3", "object()"),
        ("Linear",),
    )
    good = "torch.arange(6) % 3"
    loader = Slot(
        (
            f"[(torch.rand(6, 6), {good})]",
            f"[(torch.rand(3, 6), {good}[:3])] * 2".replace("arange(6) % 3[:3]", "arange(3)"),
        ),
        (
            *("[]", "(torch.rand(6, 6), torch.arange(6) % 3)", "torch.rand(6, 6)", "[torch.rand(6, 6)]", "None", "3"),
            *(
                f"[(torch.rand(6, 6).numpy(), {good})]",
                "[(torch.rand(6, 6), torch.rand(6))]",
                "[(torch.rand(6, 6), torch.arange(5))]",
            ),
            *(
                "[(torch.rand(6, 6), torch.full((6,), 3))]",
                "[(torch.rand(6, 6), torch.full((6,), -1))]",
                f"[(torch.full((6, 6), float('nan')), {good})]",
            ),
            *(
                "[(torch.rand(6, 6), torch.zeros(6, 1).long())]",
                f"[(torch.rand(6, 6), {good}, 3)]",
                f"[({good}, torch.rand(6, 6))]",
            ),
            *("[{'x': torch.rand(6, 6)}]", "[(torch.rand(6, 6), ['a'] * 6)]", f"[(torch.randint(5, (6, 6)), {good})]"),
            *(
                f"[(torch.rand(6, 6), {good}, {{'utility': torch.rand(6, 5)}})]",
                f"[(torch.rand(6, 6), {good}, {{'site': [1]}})]",
            ),
            *(f"[(torch.rand(6, 6), {good}, {{'utility': [1] * 6}})]", f"[(torch.rand(6, 6), {good}, {{'site': 3}})]"),
        ),
        ("object()", "'data'"),
        ("loader", "x", "labels", "label", "data", "batch", "batches", "column", "columns", "utility"),
    )
    settings = {
        "strengths": Slot(
            ("None", "(0.1, 0.5)"), ("()", "(0,)", "(-1,)", "0.1", "('0.1',)", "(float('nan'),)", "'12'"), ("object()",)
        ),
        "fraction": number("0.1", "0.5", mistakes=("0", "0.7", "-0.1")),
        "probes": whole("4", "None", mistakes=("0", "-1"), none=True),
        "corruptions": Slot(
            ("'none'", "'fast'"), ("'fog'", "['fogg']", "3", "None", "[3]"), ("object()",), ("corruption",)
        ),
        "severities": Slot(
            ("None", "(1,)"), ("(0,)", "(6,)", "('1',)", "3", "'12'", "(1.5,)"), ("object()",), ("severity",)
        ),
        "examples": whole("None", "4", mistakes=("1", "0", "-1"), none=True),
        "seed": whole("0", "$seed", mistakes=("None",)),
        "memory": whole("None", "2**20", mistakes=("0", "-1", "1e9"), none=True),
        "names": Slot(
            ("None", "poise.Names(model='m', classes=['a', 'b', 'c'])"),
            ("'model'", "{'model': 'm'}", "['a']"),
            ("3", "object()"),
        ),
        "progress": Slot(("None", "lambda *a: None"), ("True", "'bar'"), ("3",)),
        "head": Slot(("None",), ("'nowhere'", "3"), ("object()",), ("layer",)),
        "utility": Slot(
            ("None", "poise.GradientUtility()"),
            ("poise.GradientUtility", "'gradient'", "poise.RemovalUtility()"),
            ("3",),
            ("RemovalUtility",),
        ),
        "sensitivity": Slot(
            ("None",),
            ("poise.JacobianSensitivity", "'jacobian'", "poise.RemovalSensitivity()"),
            ("3",),
            ("RemovalSensitivity",),
        ),
    }
    options = ", ".join(f"{each}={each}" for each in settings)
    key = Slot(("'accuracy'",), ("'acuracy'", "'brittle'", "3", "None"), ("object()",), ("number", "measured"))
    return [
        Recipe(
            "audit",
            {"model": model, "loader": loader, **settings},
            f"poise.audit(model, loader, {options})",
            oracles.anything,
            wrong=(("poise.audit(loader, model)", "model|loader"),),
            share=0.05,
        ),
        Recipe("Audit", {"key": key}, "audited()[key]", oracles.anything, errors=(KeyError,), share=0.1),
        Recipe(
            "Names",
            {
                "classes": Slot(("('a', 'b')", "[]"), ("'cat dog'", "3", "None"), ("object()",)),
                "features": Slot(("('a', 'b')",), ("'age'", "3", "None"), ("object()",)),
                "rare": Slot(("None", "[0]"), ("3", "['cat']", "'12'", "[0.5]"), ("object()",)),
                "decode": Slot(("None", "str"), ("{1: 'a'}", "'word'", "3"), ("object()",)),
                "model": Slot(("''", "'mine'"), ("3", "None", "nn.Linear(2, 2)"), ()),
            },
            "poise.Names(model=model, classes=classes, features=features, rare=rare, decode=decode)",
            oracles.anything,
            share=0.2,
        ),
    ]


def recipes() -> tuple[Recipe, ...]:
    """The whole table."""
    parts = (
        _losses,
        _balance,
        _schedules,
        _contrasts,
        _selections,
        _perturbations,
        _measures,
        _objectives,
        _text,
        _networks,
    )
    later = (_splits, _files, _augmentations, _corruptions, _robustness, _audits)
    return tuple(recipe for part in (*parts, *later) for recipe in part())


RECIPES = recipes()
