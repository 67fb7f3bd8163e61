"""A user's network and data, read from a Python file and checked.

    network     a function that returns a new, untrained classifier
    train       inputs and labels: a pair (x, y), or a torch Dataset of such pairs
    validation  the same; by default each seed holds out another fifth of the training examples
    test        the same; used by `--test` only

Further names are optional: kind, head, rare, epochs, batch_size, learning_rate. Inputs are

    pictures    uint8, or floats in [0, 1]: arrays [N, H, W] or [N, H, W, C], tensors [N, H, W] or [N, C, H, W]
    table       floats [N, F]; columns are standardised by the training examples
    text        ids, whole numbers [N, T] with 0 as padding on the right, or poise.Tokens

Axes: N examples, H rows, W columns, C channels, F columns, T positions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from poise.checks import is_whole, require_number, require_whole
from poise.data.balance import class_counts
from poise.models.split import call_model, split
from poise.random import Stream
from poise.running.experiment import Examples, module_values
from poise.tokens import Input, Tokens, shape_of

Kind = Literal["pictures", "table", "text"]
RARE = 1 / 5  # of the largest class: classes with fewer training examples are rare
FOLDS = 5  # parts of the training examples, each of which is validation once, if the recipe gives none


@dataclass(frozen=True, eq=False)
class OwnData:
    """What a recipe gives.

    train       all training examples; without a validation set, each fold trains on four fifths of them.
    counts      training examples of each class.
    rare        the rare classes.
    given       the optional settings of the file: epochs, batch_size, learning_rate.
    raw         the training examples as the file has them.
    digest      of the file's code and all examples that training and validation use.
    """

    path: Path
    kind: Kind
    make: Callable[[], nn.Module]
    head: str | None
    train: Examples
    validation: Examples | None
    test: Examples | None
    counts: tuple[int, ...]
    rare: tuple[int, ...]
    given: dict[str, Any]
    raw: Any
    digest: str

    @property
    def num_classes(self) -> int:
        return len(self.counts)

    @property
    def trained_on(self) -> int:
        """The number of examples of a run's training set."""
        return int((self._folds != 0).sum()) if self.validation is None else len(self.train)

    def parts(self, fold: int) -> tuple[Examples, Examples, np.ndarray]:
        """The training examples and the validation examples of a fold, and the numbers of the latter [N]."""
        if self.validation is not None:
            return self.train, self.validation, np.arange(len(self.validation))
        held_out = self._folds == fold % FOLDS
        return _part(self.train, ~held_out), _part(self.train, held_out), held_out.nonzero().flatten().numpy()

    @cached_property
    def _folds(self) -> Tensor:
        """The fold in which each training example is validation [N]: a fifth of each class, from a frozen stream."""
        labels, folds = torch.as_tensor(self.train.y), torch.zeros(len(self.train), dtype=torch.long)
        order = torch.from_numpy(Stream(0, "folds").permutation(len(labels)))
        for label in range(self.num_classes):
            rows = order[labels[order] == label]
            folds[rows] = (torch.arange(len(rows)) + label) % FOLDS
        return folds

    def network(self) -> nn.Module:
        """A new network as embed + head."""
        model = self.make()
        if not isinstance(model, nn.Module):
            raise ValueError(f"{self.path}: network() must return a torch.nn.Module, not a {type(model).__name__}")
        if callable(getattr(model, "embed", None)) and hasattr(model, "head"):
            return model
        try:
            return split(model, self.head, call=_call)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.path}: network: {error}") from None


def read_recipe(path: Path) -> OwnData:
    """Run the file and check what it defines; ValueError in one sentence."""
    values = module_values(path)
    for name, what in (("network", "a function that returns a new network"), ("train", "(x, y)")):
        if name not in values:
            raise ValueError(f"{path} does not define {name}: set {name} to {what}")
    if not callable(values["network"]) or isinstance(values["network"], nn.Module):
        raise ValueError(
            f"{path}: network must be a function that returns a new network, such as network = make_network"
        )
    kind = _kind_of(values.get("kind"), _pair(path, "train", values["train"])[0], path)
    held: dict[str, Examples] = {
        name: _examples(path, name, values[name], kind) for name in ("train", "validation", "test") if name in values
    }
    return _checked(path, kind, held, values)


def _checked(path: Path, kind: Kind, held: dict[str, Examples], values: dict[str, Any]) -> OwnData:
    for name in ("validation", "test"):
        if name in held:
            _require_alike(path, name, held[name], held["train"])
    train, validation = held["train"], held.get("validation")
    counts = _require_classes(path, train, held)
    test = held.get("test")
    if kind == "table":
        scale = _scale(train.x)
        train = _standardised(train, scale)
        validation, test = (None if each is None else _standardised(each, scale) for each in (validation, test))
    return OwnData(
        path,
        kind,
        values["network"],
        values.get("head"),
        train,
        validation,
        test,
        counts,
        _rare(path, values.get("rare"), counts, validation),
        _given(path, values),
        values["train"],
        _digest(path, train, validation),
    )


def _pair(path: Path, name: str, value: Any) -> tuple[Any, Any]:
    """x and y as given."""
    if isinstance(value, tuple | list) and len(value) == 2:
        return value[0], value[1]
    if hasattr(value, "__getitem__") and hasattr(value, "__len__") and len(value):
        rows = [value[row] for row in range(len(value))]
        if all(isinstance(row, tuple | list) and len(row) == 2 for row in rows):
            return torch.stack([torch.as_tensor(row[0]) for row in rows]), torch.tensor([int(row[1]) for row in rows])
    raise ValueError(f"{path}: {name} must be a pair (x, y) or a Dataset of such pairs, not a {type(value).__name__}")


def _kind_of(named: Any, x: Any, path: Path) -> Kind:
    if named is not None:
        if named not in get_args(Kind):
            raise ValueError(f"{path}: kind={named!r} must be 'pictures', 'table' or 'text'")
        return named  # type: ignore[no-any-return]
    if isinstance(x, Tokens):
        return "text"
    held = x if isinstance(x, Tensor) else np.asarray(x)
    whole = "int" in str(held.dtype) and "uint8" not in str(held.dtype)
    if held.ndim == 2:
        return "text" if whole else "table"
    return "pictures"


def _examples(path: Path, name: str, value: Any, kind: Kind) -> Examples:
    x, y = _pair(path, name, value)
    place = f"{path}: {name}"
    try:
        labels = torch.as_tensor(np.asarray(y))
    except (TypeError, ValueError):
        raise ValueError(f"{place}: labels must be whole numbers [N]") from None
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool or not len(labels):
        raise ValueError(f"{place}: labels must be whole numbers [N], got {_shown(labels)}")
    if int(labels.min()) < 0:
        raise ValueError(f"{place}: label {int(labels.min())} is negative: number the classes from 0")
    inputs = _tokens(place, x) if kind == "text" else _numbers(place, x, kind)
    if len(inputs) != len(labels):
        raise ValueError(f"{place}: there are {len(labels)} labels for {len(inputs)} examples")
    return Examples(inputs, labels.long())


def _tokens(place: str, given: Any) -> Tokens:
    x: Tokens
    if isinstance(given, Tokens):
        x = given
    else:
        ids = torch.as_tensor(np.asarray(given))
        if ids.ndim != 2 or ids.is_floating_point() or int(ids.min()) < 0:
            raise ValueError(f"{place}: text must be ids [N, T], whole numbers with 0 as padding, got {_shown(ids)}")
        x = Tokens(ids.long(), ids != 0)
    if (x.mask[:, 1:] & ~x.mask[:, :-1]).any():
        raise ValueError(f"{place}: padding must come after the tokens of a text, at the right")
    if not x.mask.any(1).all():
        raise ValueError(f"{place}: text {int((~x.mask.any(1)).nonzero()[0])} has no tokens")
    return x


def _numbers(place: str, x: Any, kind: Kind) -> Tensor:
    arrays = not isinstance(x, Tensor)
    held = torch.as_tensor(np.asarray(x)) if arrays else x.detach().cpu()
    axes = {"table": (2,), "pictures": (3, 4)}[kind]
    if held.ndim not in axes or held.is_complex():
        form = "floats [N, F]" if kind == "table" else "[N, H, W], arrays [N, H, W, C] or tensors [N, C, H, W]"
        raise ValueError(f"{place}: {kind} must be {form}, got {_shown(held)}")
    if wrong := (~held.float().flatten(1).isfinite().all(1)).nonzero().flatten().tolist():
        raise ValueError(f"{place}: example {wrong[0]} has values that are NaN or infinite: replace or remove them")
    return held.float() if kind == "table" else _pictures(place, held, arrays)


def _pictures(place: str, x: Tensor, arrays: bool) -> Tensor:
    """uint8 [N, C, H, W]; floats are rounded to 256 levels."""
    if x.dtype != torch.uint8:
        low, high = (float(end) for end in x.float().aminmax())
        if low < 0 or high > 1:
            raise ValueError(
                f"{place}: pictures must be uint8, or floats in [0, 1], got {x.dtype} from {low:.3g} to {high:.3g}: "
                "leave their normalization to the network"
            )
        x = (x.float() * 255).round().to(torch.uint8)
    if x.ndim == 3:
        return x[:, None]
    return x.permute(0, 3, 1, 2).contiguous() if arrays else x


def _require_alike(path: Path, name: str, given: Examples, train: Examples) -> None:
    own, wanted = (list(_shape(each.x)[1:]) for each in (given, train))
    if own != wanted:
        raise ValueError(f"{path}: {name} has examples of shape {own}, train has {wanted}")


def _shape(x: Any) -> torch.Size:
    return torch.Size([len(x)]) if isinstance(x, Tokens) else shape_of(x)


def _require_classes(path: Path, train: Examples, held: dict[str, Examples]) -> tuple[int, ...]:
    """The training examples of each class; ValueError unless each has enough."""
    counts = class_counts(train.y)
    present = [label for label, count in enumerate(counts) if count]
    if len(present) < 2:
        raise ValueError(f"{path}: train has one class only, {present[0]}: there must be two or more")
    for label, count in enumerate(counts):
        if not count:
            raise ValueError(f"{path}: train has no example of class {label}: number the classes from 0 without gaps")
        if "validation" not in held and count < FOLDS:
            raise ValueError(
                f"{path}: train has {count} example{'s' if count > 1 else ''} of class {label}: give {FOLDS} or more, "
                "or define validation"
            )
    for name in ("validation", "test"):
        if name in held and int(held[name].y.max()) >= len(counts):
            raise ValueError(
                f"{path}: {name} has the label {int(held[name].y.max())}, but train has {len(counts)} classes"
            )
    return counts


def _part(examples: Examples, chosen: Tensor) -> Examples:
    return Examples(examples.x[chosen], examples.y[chosen])


def _scale(x: Any) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each column; 1 for a constant one."""
    deviation = x.std(0, correction=0)
    return x.mean(0), deviation.where(deviation > 0, 1.0)


def _standardised(examples: Examples, scale: tuple[Tensor, Tensor]) -> Examples:
    return Examples((examples.x - scale[0]) / scale[1], examples.y)  # type: ignore[operator]


def _rare(path: Path, named: Any, counts: tuple[int, ...], validation: Examples | None) -> tuple[int, ...]:
    """The classes that the file names, or those with few training examples; they need examples in validation."""
    if named is None:
        rare = [label for label, count in enumerate(counts) if count < RARE * max(counts)]
    else:
        rare = sorted(set(named)) if isinstance(named, tuple | list) else [named]
        if not all(is_whole(label) and 0 <= label < len(counts) for label in rare):
            shown = " ".join(repr(named).split())[:60]
            raise ValueError(f"{path}: rare={shown} must be a list of classes, from 0 to {len(counts) - 1}")
    held = counts if validation is None else class_counts(validation.y, len(counts))
    for label in rare:
        if held[label] < 2:
            raise ValueError(
                f"{path}: validation has {held[label]} of the rare class {label}: give two or more examples"
            )
    return tuple(rare)


def _given(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: values[name] for name in ("epochs", "batch_size", "learning_rate") if name in values}
    try:
        for name in ("epochs", "batch_size"):
            if name in found:
                require_whole(name, found[name], least=1)
        if "learning_rate" in found:
            require_number("learning_rate", found["learning_rate"], above=0)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    return found


def _digest(path: Path, *parts: Examples | None) -> str:
    """Of the code without comments, and of the examples."""
    digest = sha256(ast.dump(ast.parse(path.read_text(encoding="utf8"))).encode())
    for part in parts:
        if part is not None:
            held: Any = part.x.ids if isinstance(part.x, Tokens) else part.x
            digest.update(held.contiguous().numpy().tobytes())
            digest.update(torch.as_tensor(part.y).numpy().tobytes())
    return digest.hexdigest()[:12]


def _call(model: nn.Module, x: Input) -> Any:
    """The model's output; a model without input_ids, as Hugging Face has them, gets the ids of a text."""
    takes_ids = isinstance(x, Tokens) and "input_ids" not in signature(model.forward).parameters
    return model(x.ids) if takes_ids else call_model(model, x)  # type: ignore[union-attr]


def _shown(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} {list(values.shape)}"
