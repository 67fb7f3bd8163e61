"""The documents say what the records say: what `python -m docs.pages` writes is what is committed."""

import re
from pathlib import Path

import pytest

from docs import claims, pages, wording
from docs.evidence import Effect, Evidence, average
from docs.verdicts import Claim, Part, state, verdict
from poise.reporting.statistics import Difference, holm_corrected

ROOT = Path(__file__).parents[1]
READ = [ROOT / "docs" / name for name in ("claims.md", "cifar.md", "synthetic-mnist.md")]
UP, DOWN = Difference(0.1, 5, 0.08, 0.12, 0.001), Difference(-0.1, 5, -0.12, -0.08, 0.001)
WIDE = Difference(0.01, 5, -0.04, 0.06, 0.6)


@pytest.fixture(scope="module")
def known() -> Evidence:
    return Evidence()


def test_everything_is_as_it_would_be_written_now(known: Evidence) -> None:
    found = dict(pages.everything(known))
    assert len(found) >= 12
    stale = [path.name for path, content in found.items() if path.read_text(encoding="utf8") != content]
    assert stale == [], "run python -m docs.pages"


def test_a_block_without_a_function_is_named() -> None:
    with pytest.raises(ValueError, match="no function makes 'nothing'"):
        pages.filled("<!-- made: nothing -->\n<!-- end -->\n", Evidence(ROOT))


def test_every_function_is_used() -> None:
    held = {name for path in pages.pages() for _, name, *_ in pages.BLOCK.findall(path.read_text(encoding="utf8"))}
    controls = {name for name in pages.BLOCKS if "cifar-controls" in name}  # of a length that is not run yet
    assert held == set(pages.BLOCKS) - (controls - held)


def test_claims_are_short_and_all_there(known: Evidence) -> None:
    found = claims.claims(known)
    assert {int(claim.number.rstrip("abc")) for claim in found} == set(range(1, 26))
    for claim in found:
        shown = re.sub(r"\]\([^)]*\)|[|*\[]", " ", claims.row(claim)).split()
        assert len(shown) <= 25, claim.text
        assert verdict(claim) in ("holds", "partly", "refuted", "open")


@pytest.mark.parametrize(
    ("says", "gap", "expected"),
    [
        ("above", UP, 1),
        ("above", DOWN, -1),
        ("above", WIDE, 0),
        ("below", DOWN, 1),
        ("below", UP, -1),
        ("kept", Difference(-0.002, 5, -0.003, -0.001, 0.01), 1),
        ("kept", DOWN, -1),
        ("kept", WIDE, 0),
        ("kept", UP, 1),
        ("alike", Difference(0.0, 5, -0.02, 0.02, 0.9), 1),
        ("alike", UP, -1),
        ("alike", WIDE, 0),
        ("useless", UP, -1),
        ("useless", DOWN, 1),
        ("useless", WIDE, 0),
        ("reached", WIDE, 1),
        ("reached", DOWN, -1),
        ("above", Difference(0.1, 1), 0),
    ],
)
def test_a_part_is_shown_contradicted_or_undecided(says, gap: Difference, expected: int) -> None:
    (tested,) = holm_corrected([gap])
    assert tested is not None and state(says, tested) == expected


def claim(*gaps: Difference | None, whole: bool = False) -> Claim:
    parts = [Part("it", "above", Effect(gap, "20") if gap else None) for gap in gaps]
    return Claim("1", "a claim", "[there](there.md)", tuple(parts), whole)


def test_the_verdict_is_that_of_its_parts() -> None:
    assert verdict(claim(UP, UP)) == "holds"
    assert verdict(claim(UP, WIDE)) == verdict(claim(UP, DOWN)) == verdict(claim(UP, None)) == "partly"
    assert verdict(claim(DOWN, WIDE)) == verdict(claim(UP, DOWN, whole=True)) == "refuted"
    assert verdict(claim(WIDE)) == verdict(claim(None)) == verdict(claim()) == "open"


def test_parts_share_a_correction() -> None:
    just = Difference(0.1, 5, 0.01, 0.19, 0.03)
    assert verdict(claim(just)) == "holds" and verdict(claim(just, just)) == "open"


def test_full_length_counts_from_three_common_seeds_on(known: Evidence) -> None:
    assert known.longest("noisy-cifar10", "XE", "FCL", seeds=1) == "noisy-cifar10"
    assert known.longest("noisy-cifar10", "XE", "FCL", seeds=99) == "noisy-cifar10-compressed"
    assert known.longest("noisy-cifar100", "XE", "FCL", seeds=99) == "noisy-cifar100-compressed"
    assert known.epochs("noisy-cifar10") == "450" and known.epochs("noisy-cifar10-compressed") == "45 of 450"


def test_readings_are_averaged_by_seed() -> None:
    assert average([{0: 1.0, 1: 2.0}, {1: 4.0, 2: 9.0}]) == {1: 3.0}


def test_an_answer_is_corrected_over_its_lines() -> None:
    just = Effect(Difference(-0.1, 5, -0.19, -0.01, 0.03), "20")
    assert "**no**" in wording.answers([("is it", "UN", just)])
    assert "**undecided**" in wording.answers([("is it", "UN", just)] * 2)
    assert "| open |" in wording.answers([("is it", "UN", None)])


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_no_sentence_has_more_than_three_numbers(page: Path) -> None:
    prose = re.sub(r"```.*?```|<!-- made.*?<!-- end -->", "", page.read_text(encoding="utf8"), flags=re.S)
    prose = re.sub(r"^\|.*$|^!.*$|\]\([^)]*\)", "", prose, flags=re.M)
    sentences = re.split(r"(?<=[.:;])\s+(?=[A-Z*\[]|- )|\n\n|\n- ", prose)
    counts = {each: len(re.findall(r"(?<![\w./-])[+-]?(?:\d*\.)?\d+(?![\w-]*[a-z-])", each)) for each in sentences}
    assert {each: count for each, count in counts.items() if count > 3} == {}
