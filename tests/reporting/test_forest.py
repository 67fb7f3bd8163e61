"""Forest plots: a row per method, a panel per column."""

import re
from xml.etree import ElementTree

import pytest

from poise.reporting.figures.forest import ForestBlock, ForestRow, forest, standalone
from poise.reporting.statistics import Difference

UP = Difference(0.2, 5, 0.1, 0.3, p=0.001)
DOWN = Difference(-0.1, 5, -0.15, -0.05, p=0.02, holm=0.04)
LOST = Difference(-0.1, 5, -0.15, -0.05, p=0.02, holm=0.06)
ALONE = Difference(0.05, 1)
BLOCKS = (
    ForestBlock("CIFAR-10 & friends", (ForestRow("FCL", (UP, DOWN)), ForestRow("AugMix", (None, LOST)))),
    ForestBlock("CIFAR-100", (ForestRow("FCL <3", (ALONE, None)),)),
)


@pytest.fixture(scope="module")
def drawn() -> ElementTree.Element:
    return ElementTree.fromstring(forest("what it shows", ("clean", "noise"), BLOCKS))


def dots(drawn: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in drawn.iter("rect") if each.find("title") is not None]


def middle(dot: ElementTree.Element) -> float:
    return float(dot.attrib["x"]) + float(dot.attrib["width"]) / 2


def test_names_titles_and_columns_are_written(drawn: ElementTree.Element) -> None:
    shown = [each.text for each in drawn.iter("text")]
    assert {"CIFAR-10 & friends", "CIFAR-100", "FCL", "FCL <3", "AugMix", "clean", "noise"} <= set(shown)
    assert [word for word in shown if word in ("+.200", "-.100", "+.050")] == ["+.200", "-.100", "-.100", "+.050"]


def test_a_dot_says_its_interval_and_whether_it_is_significant(drawn: ElementTree.Element) -> None:
    told = [(each.findtext("title"), each.attrib["class"]) for each in dots(drawn)]
    assert told == [
        ("FCL: +.200 [+.100, +.300]", "higher dot"),
        ("FCL: -.100 [-.150, -.050]", "lower dot"),
        ("AugMix: -.100 [-.150, -.050]", "hollow undecided"),
        ("FCL <3: +.050", "hollow undecided"),
    ]


def test_a_panel_has_one_scale_with_zero(drawn: ElementTree.Element) -> None:
    """Dots of one panel lie as far from its line at 0 as their means are apart."""
    first, alone = dots(drawn)[0], dots(drawn)[3]
    zero = min(
        float(re.findall(r"M([\d.]+)", each.attrib["d"])[0])
        for each in drawn.iter("path")
        if each.attrib["class"] == "axis"
    )
    assert (middle(first) - zero) / (middle(alone) - zero) == pytest.approx(4, abs=0.1)
    intervals = [each for each in drawn.iter("path") if "interval" in each.attrib["class"]]
    assert len(intervals) == 3  # one seed has none
    ends = [float(x) for x in re.findall(r"[ML]([\d.]+) ", intervals[0].attrib["d"])]
    assert sum(ends) / 2 == pytest.approx(middle(first), abs=0.2)


def test_a_file_carries_its_size_and_style() -> None:
    written = standalone(forest("what it shows", ("clean", "noise"), BLOCKS))
    root = ElementTree.fromstring(written)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.attrib["width"] == root.attrib["viewBox"].split()[2]
    style = root.findtext("{http://www.w3.org/2000/svg}style")
    assert style is not None and ".lower.dot" in style and "var(" not in style
