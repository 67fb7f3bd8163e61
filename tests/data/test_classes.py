"""The names of classes."""

from poise.data.sets.catalogue import CLASS_NAMES


def test_cifar_100_has_a_hundred_names_in_the_order_of_the_alphabet() -> None:
    names = CLASS_NAMES["cifar100"]
    assert len(set(names)) == 100 and list(names) == sorted(names)
    assert names[0] == "apple" and names[47] == "maple tree" and names[99] == "worm"


def test_cifar_10_has_ten() -> None:
    assert len(set(CLASS_NAMES["cifar10"])) == 10
