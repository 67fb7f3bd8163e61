"""Recipes read field by field."""

import ast

from fake_records import RECIPE

from poise.records.recipe_text import common_differences, differences, pretty, recipe_fields

LINE = RECIPE.format(method="FCL", peak=0.001, seed=1)


def test_the_seed_of_the_run_is_no_difference() -> None:
    assert differences(LINE, LINE.replace("seed=1", "seed=2")) == []
    assert differences("Recipe(noise=Noise(seed=1))", "Recipe(noise=Noise(seed=2))") == ["noise.seed: 1, 2"]


def test_only_what_differs_is_shown() -> None:
    other = LINE.replace("k=256", "k=128").replace("units=(120, 84)", "units=(120, 64)").replace("'BAL+UN'", "'UN'")
    assert differences(LINE, other) == [
        "model.units[1]: 84, 64",
        "objective.select.k: 256, 128",
        "tests['BAL+UN']: Noise, none",
        "tests['UN']: none, Noise",
    ]


def test_another_class_hides_its_fields() -> None:
    assert differences("R(o=FCL(k=2))", "R(o=XE(j=3))") == ["o: FCL, XE"]
    assert differences("R(1)", "S(1)") == ["the recipe: R, S"]


def test_a_line_that_is_not_python_is_compared_as_text() -> None:
    one, other = (f"{'x' * 500}<function at {number}>{'y' * 500}" for number in (1, 2))
    (line,) = differences(one, other)
    assert "at 1>" in line and "at 2>" in line and len(line) < 200
    assert differences(one, one) == [] and recipe_fields(one) is None and pretty(one) == one


OPAQUE = "R(task=<T at 0x1>, network=<lambda>(n=3), plan=Plan(3, words=('a, b', [1, ')'])), method=M('XE (1, [2'))"


def test_parts_that_are_not_python_stand_beside_those_that_are() -> None:
    other = OPAQUE.replace("Plan(3", "Plan(5").replace("n=3", "n=4").replace("')'", "'('")
    assert differences(OPAQUE, other) == ["network.n: 3, 4", "plan[0]: 3, 5", "plan.words[1][1]: ')', '('"]
    assert common_differences(OPAQUE, other) == differences(OPAQUE, other)
    assert (
        common_differences(OPAQUE, OPAQUE.replace("XE", "FCL"))
        == []
        != differences(OPAQUE, OPAQUE.replace("XE", "FCL"))
    )
    assert recipe_fields(OPAQUE.replace("<T at 0x1>", "T(a=1)"))["method[0]"] == "'XE (1, [2'"


def test_what_cannot_be_compared_is_a_difference_of_all_common_differences() -> None:
    said = ["task: <T at 0x1>, <T at 0x2> (not Python: cannot be compared)"]
    assert common_differences(OPAQUE, OPAQUE.replace("0x1", "0x2")) == said
    (line,) = common_differences("Linear(\n  (0): x)", "Linear(\n  (0): y)")
    assert line == "[0]: (0): x, (0): y (not Python: cannot be compared)"
    (line,) = common_differences("<R at 1>", "<R at 2>")
    assert line.startswith("the recipe: from character 0: ") and line.endswith("(not Python: cannot be compared)")


def test_pretty_is_the_same_python_in_short_lines() -> None:
    lines = pretty(LINE)
    assert max(map(len, lines.splitlines())) <= 100 and lines.count("\n") > 8
    assert ast.dump(ast.parse(lines, mode="eval")) == ast.dump(ast.parse(LINE, mode="eval"))
