"""Models that a user names: of torchvision or timm, a Hugging Face folder, own code, or a Poise checkpoint.

    torchvision:resnet50, timm:resnet50, resnet50    with --weights FILE
    hf:NAME                                          a Hugging Face model in the local cache, or in a folder
    path/to/folder                                   config.json of Hugging Face, or a run or an export of Poise
    checkpoint-0020.safetensors                      of Poise; the network is named in the recipe beside it
    package.module:function, file.py:function        your own code, which returns the model

The network of a checkpoint is named in the file's header, or in the recipe of the run beside it. Weights are
safetensors; nothing is unpickled without --trust. A Hugging Face folder is loaded without the network, and none of its
code runs. An error in the user's code becomes one sentence.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import sep
from pathlib import Path
from sysconfig import get_path
from traceback import FrameSummary, extract_tb
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch import Tensor, nn

from poise.checks import install
from poise.errors import AuditError
from poise.inputs.classifiers import Normalized, as_classifier, precision_note
from poise.inputs.hugging_face import cached, from_folder, longest_sentence
from poise.io.documents import is_proved, text_of
from poise.models.resnet import IMAGENET_MEAN, IMAGENET_STD
from poise.models.saved import NETWORKS, is_exported, network_in
from poise.models.split import split
from poise.models.transformer import Transformer

MeanStd = tuple[Sequence[float], Sequence[float]]
_HOMES = ("torchvision", "timm")
_NORMALIZATIONS: dict[str, MeanStd | None] = {
    "none": None,
    "imagenet": (IMAGENET_MEAN, IMAGENET_STD),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
_NOT_THE_USERS = (Path(__file__).parents[1], Path(get_path("stdlib")))
_FOLDERS: set[Path] = set()  # folders of the user's files that were imported


@dataclass(frozen=True, eq=False)
class Loaded:
    """A loaded model.

    size       the size of its images; None for any size.
    classes    the names of its classes; empty if unknown.
    tokenizer  the folder of its tokenizer.
    reads      "text" or "pictures"; None if unknown.
    longest    its maximum number of tokens; None if unknown.
    note       a sentence about the conversion of its weights.
    """

    model: nn.Module
    name: str
    size: int | None = None
    classes: Sequence[str] = field(default=())
    tokenizer: Path | None = None
    reads: str | None = None
    longest: int | None = None
    note: str = ""


def load_network(
    source: str, *, weights: Path | None, network: str | None, normalize: str | None, trust: bool
) -> Loaded:
    """Load a model for images in [0, 1] as it is, for measures of its logits; AuditError lists the valid forms."""
    found, mean_std = _find(source, weights, network, trust)
    mean_std = mean_std if normalize is None else normalization(normalize)
    model = found.model if mean_std is None else Normalized(found.model, *mean_std)
    return replace(found, model=model.eval(), note=precision_note(found.model))


def open_model(
    source: str, *, weights: Path | None, network: str | None, head: str | None, normalize: str | None, trust: bool
) -> Loaded:
    """Load the model that an argument of the command names; AuditError lists the valid forms."""
    found, mean_std = _find(source, weights, network, trust)
    try:
        classifier: nn.Module = as_classifier(found.model, head)
    except ValueError as error:
        raise AuditError(f"{source}: {with_options(str(error))}") from None
    if normalize is not None:
        mean_std = normalization(normalize)
    if mean_std is not None:
        classifier = Normalized(classifier, *mean_std)
    classifier.eval()
    return replace(found, model=classifier, note=precision_note(found.model))


def with_options(sentence: str) -> str:
    """An error of `split`, in terms of the command line."""
    return sentence.replace("head=NAME", "--head NAME")


def normalization(name: str) -> MeanStd | None:
    """A pair of mean and deviation by name."""
    if name not in _NORMALIZATIONS:
        raise AuditError(f"--normalize {name!r} must be none, imagenet or half (mean and deviation .5)")
    return _NORMALIZATIONS[name]


def _find(source: str, weights: Path | None, network: str | None, trust: bool) -> tuple[Loaded, MeanStd | None]:
    home, _, rest = source.partition(":")
    path = cached(rest) if home == "hf" and rest else Path(source)
    if home in _HOMES and rest:
        return _from_hub(home, rest, weights, trust)
    if rest and home != "hf" and not path.exists():
        return Loaded(_from_function(home, rest, weights, trust), source), None
    if path.is_dir() and (path / "config.json").is_file() and not is_exported(path):
        model, size, classes, mean_std = from_folder(path, trust)
        reads = "text" if size is None else "pictures"
        name, longest = path.resolve().name, longest_sentence(model) if size is None else None
        return Loaded(model, name, size, classes, path if size is None else None, reads, longest), mean_std
    if path.is_dir() or path.suffix == ".safetensors":
        ours = poise_model(path, network)
        longest = ours.position.num_embeddings if isinstance(ours, Transformer) else None
        return Loaded(ours, _name(path), longest=longest), None
    if path.suffix == ".py":
        raise AuditError(
            f"{source} is a Python file: name its function that returns the model, as in {source}:FUNCTION"
        )
    if path.is_file():
        return Loaded(_whole_pickle(path, trust), path.stem), None
    missing = [each for each in _HOMES if importlib.util.find_spec(each) is None]
    for each in _HOMES:
        if each not in missing and _knows(each, source):
            return _from_hub(each, source, weights, trust)
    which = f"neither {' nor '.join(missing)} is" if len(missing) > 1 else f"{''.join(missing)} is not"
    raise AuditError(
        f"no model found at {source!r}: use torchvision:NAME or timm:NAME (both with --weights), a Hugging Face "
        f"folder, a Poise checkpoint, or module:function{f'; {which} installed' if missing else ''}"
    )


def _name(path: Path) -> str:
    """The display name of a checkpoint: the method and seed of its run."""
    home = path if path.is_dir() else path.parent
    parts = home.resolve().parts[-2:]
    return " ".join(parts) if parts[-1].startswith("seed-") else path.stem


def _knows(home: str, name: str) -> bool:
    try:
        if home == "timm":
            return bool(importlib.import_module("timm").is_model(name))
        return name in importlib.import_module("torchvision.models").list_models()
    except Exception:  # a broken installation has no models
        return False


def _from_hub(home: str, name: str, weights: Path | None, trust: bool) -> tuple[Loaded, MeanStd | None]:
    try:
        library = importlib.import_module("timm" if home == "timm" else "torchvision.models")
    except Exception as error:  # a missing package, or one that is incompatible with this torch
        raise AuditError(f"{home} cannot be imported ({str(error).splitlines()[0]}): pip install {home}") from None
    if not _knows(home, name):
        raise AuditError(f"{home} has no model {name!r}")
    if weights is None:
        raise AuditError(f"{home}:{name} needs its weights: pass --weights FILE (safetensors, or a .pth with --trust)")
    tensors = load_weights(weights, trust)
    make: Any = library.create_model if home == "timm" else library.get_model
    model = make(name)
    last = tensors.get(f"{split(model).head_name}.weight")
    if last is not None and len(last) != len(model.get_submodule(split(model).head_name).weight):
        model = make(name, num_classes=len(last))
    fill(model, tensors, weights)
    held = getattr(model, "pretrained_cfg", None)
    cfg = held if isinstance(held, dict) else {}
    size = int(cfg.get("input_size", (3, 224, 224))[-1])
    return Loaded(model, name, size), (cfg.get("mean", IMAGENET_MEAN), cfg.get("std", IMAGENET_STD))


def fill(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Load the weights of a file into a model."""
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        first = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise AuditError(f"{path} contains the weights of another network: {first[:160]}") from None


def _from_function(module: str, function: str, weights: Path | None, trust: bool) -> nn.Module:
    try:
        found = getattr(module_of(module), function)
    except AttributeError:
        raise AuditError(f"{module} has no {function!r}") from None
    model = (
        call_user_code(found, f"{module}:{function}") if callable(found) and not isinstance(found, nn.Module) else found
    )
    model = getattr(model, "_orig_mod", model)  # of torch.compile
    if not isinstance(model, nn.Module):
        raise AuditError(f"{module}:{function} must return a torch.nn.Module, got {model!r:.40}")
    if weights is not None:
        fill(model, load_weights(weights, trust), weights)
    return model


def _whole_pickle(path: Path, trust: bool) -> nn.Module:
    found = unpickled(path, trust)
    if not isinstance(found, nn.Module):
        raise AuditError(
            f"{path} contains a {type(found).__name__}, not a model: name its network, as in torchvision:NAME --weights"
        )
    return found


def call_user_code(function: Callable[[], Any], name: str) -> Any:
    """The result of the user's function; its error becomes an AuditError."""
    try:
        return function()
    except (Exception, SystemExit) as error:  # any error of the user's code
        raise AuditError(f"{name} raised {describe_exception(error)}") from None


def describe_exception(error: BaseException) -> str:
    """The type of an error, the line of the user's code that raised it, and the first line of its message."""
    own = _frames(error)
    where = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    return f"{type(error).__name__}{where}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")


def is_from_user_code(error: BaseException) -> bool:
    """Whether the user's code raised the error, or called code that did."""
    return bool(_frames(error))


def _frames(error: BaseException) -> list[FrameSummary]:
    """The stack frames of the user's code."""
    return [frame for frame in extract_tb(error.__traceback__) if not _installed(Path(frame.filename))]


def _installed(file: Path) -> bool:
    """Whether a file belongs to Poise, an installed package or Python itself; "<frozen importlib>" does, too."""
    return (
        str(file).startswith("<frozen ")
        or "site-packages" in file.parts
        or any(each in file.parents for each in _NOT_THE_USERS)
    )


def module_of(name: str) -> Any:
    """Import a module by its name or file. The folder of a file comes first on sys.path, as when Python runs it."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise AuditError(f"{name} is not a file")
        _import_from(path.resolve().parent)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise AuditError(f"{name} cannot be imported")
        load, module = spec.loader.exec_module, importlib.util.module_from_spec(spec)
        held = sys.modules.setdefault(path.stem, module)
        try:
            call_user_code(lambda: load(module), name)
        except AuditError:
            if held is module:
                del sys.modules[path.stem]
            raise
        return module
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise AuditError(
            f"{name} cannot be imported ({error}): add its folder to PYTHONPATH, or name its file"
        ) from None
    except (Exception, SystemExit) as error:  # any error of the user's code
        raise AuditError(f"{name} raised {describe_exception(error)}") from None


def _import_from(folder: Path) -> None:
    """Let a file import the modules of its own folder, not those of the same name beside the other model's file."""
    others = tuple(f"{each}{sep}" for each in _FOLDERS if each != folder)
    for name, module in list(sys.modules.items()):
        own = getattr(module, "__dict__", {})  # attribute access could trigger lazy imports
        file = str(own.get("__file__"))
        if not file.startswith(others) or file.startswith(f"{folder}{sep}"):
            continue
        top = name.partition(".")[0]
        if (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file():
            del sys.modules[name]
    _FOLDERS.add(folder)
    sys.path.insert(0, str(folder))


_INSIDE = ("state_dict", "model", "model_state_dict", "weights")
_PREFIXES = ("module.", "_orig_mod.")


def load_weights(path: Path, trust: bool) -> dict[str, Tensor]:
    """Tensors by name, without the prefixes of wrappers; from a Poise checkpoint, those of its model."""
    tensors = read_safetensors(path) if path.suffix == ".safetensors" else _from_pickle(path, trust)
    ours = {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}
    tensors = ours or tensors
    for prefix in _PREFIXES:
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    if not tensors:
        raise AuditError(f"{path} contains no weights")
    return tensors


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file; AuditError if it is missing or damaged."""
    try:
        from safetensors.torch import load_file
    except ModuleNotFoundError:
        raise AuditError(f"safetensors is missing: {install('experiments')}") from None
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    try:
        return load_file(path)
    except Exception as error:  # any error on a damaged file
        raise AuditError(f"{path} cannot be read as safetensors: {error}") from None


def unpickled(path: Path, trust: bool) -> Any:
    """The content of a pickle. Unpickling can run code, so it needs --trust."""
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    with path.open("rb") as stream:
        start = stream.read(2)
    if start != b"PK" and start[:1] != b"\x80":
        raise AuditError(
            f"{path} contains neither weights nor a model: it must be a safetensors file or a pickle of torch"
        )
    program = _is_torchscript(path)
    if program and not trust:
        raise AuditError(
            f"{path} is a TorchScript program, which hides the layers of its model: pass the original Python model as "
            "file.py:function. If the program has methods embed and head, add --trust to run it"
        )
    if not trust:
        raise AuditError(f"{path} is a pickle, which can run code: convert it to safetensors, or add --trust")
    try:
        if program:
            return torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # any error on a damaged file
        raise AuditError(f"{path} cannot be read: {type(error).__name__}: {error}") from None


def _is_torchscript(path: Path) -> bool:
    """Whether a file is a TorchScript archive, which has constants beside its data. Loading it can run code."""
    try:
        with ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (BadZipFile, OSError):
        return False


def _from_pickle(path: Path, trust: bool) -> dict[str, Tensor]:
    found = unpickled(path, trust)
    for name in _INSIDE:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if hasattr(found, "state_dict"):
        found = found.state_dict()
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise AuditError(f"{path} contains no weights by name")
    return found


def poise_model(path: Path, network: str | None) -> nn.Module:
    """The network of a file, or of the saved model or newest checkpoint in the folder of a run."""
    file = _newest(path) if path.is_dir() else path
    weights = load_weights(file, trust=False)
    _prove(file)
    try:
        model = build(network or network_in(file) or _recipe(file))
    except AuditError as error:
        raise error if network else AuditError(f"{file}: {error}") from None
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise AuditError(f"{file} contains the weights of another network: {reason}") from None
    return model


def _newest(run: Path) -> Path:
    every = sorted(run.glob("checkpoint-*.safetensors"))
    whole = [path for path in every if path.with_suffix(".json").exists()]  # the JSON is written last
    found = [*(whole or every), *run.glob("model.safetensors")]
    if not found:
        raise AuditError(
            f"{run} has neither config.json (Hugging Face) nor model.safetensors or checkpoint-*.safetensors (Poise)"
        )
    return found[-1]


def _prove(file: Path) -> None:
    """Raise AuditError if the JSON beside a checkpoint is damaged, or does not match its tensors."""
    facts = file.with_suffix(".json")
    if not file.name.startswith("checkpoint-") or not facts.exists():
        return
    from poise.errors import TrainingError
    from poise.training.checkpoint import read

    try:
        read(facts)
    except TrainingError as error:
        raise AuditError(f"{error}: use the previous checkpoint, or run the experiment again") from None


def build(network: str) -> nn.Module:
    """A Poise network from a string such as "LeNet(num_classes=15)"; arguments must be literals."""
    known = ", ".join(NETWORKS)
    invalid = AuditError(f"invalid network {network!r}: write it as LeNet(num_classes=10); choose one of {known}")
    try:
        call = ast.parse(network, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise invalid
        settings = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        values = [ast.literal_eval(value) for value in call.args]
        make = NETWORKS[call.func.id]
    except (SyntaxError, ValueError, KeyError):
        raise invalid from None
    try:
        return make(*values, **settings)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AuditError(f"{network!r} cannot be built: {error}") from None


def _recipe(checkpoint: Path) -> str:
    """The network in the recipe of the run that wrote the checkpoint."""
    for name in ("record.json", "recipe.json"):
        try:
            content: Any = json.loads(text_of(checkpoint.parent / name))
            tree = ast.parse(content["recipe"] if is_proved(content) else "", mode="eval").body
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError, RecursionError):
            continue
        for word in tree.keywords if isinstance(tree, ast.Call) else []:
            if word.arg == "network":
                return ast.unparse(word.value)
    example = "--network 'resnet56(num_classes=10)'"
    raise AuditError(f"neither the file nor a recipe beside it names the network: add it, such as {example}")
