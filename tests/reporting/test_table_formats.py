"""Tables written down, and parsed back."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from fake_records import cifar, mnist, path_of

from poise.records.schema import Published, load_results
from poise.reporting import table_formats
from poise.reporting.statistics import Difference, Summary, arrow, interval_text, number, probability, spread
from poise.reporting.table_formats import FORMATS, text
from poise.reporting.tables import CellGrid, Mark, Table, differences_grid, tables_of


@pytest.fixture
def tables(tmp_path: Path) -> list[Table]:
    path = mnist(tmp_path, methods=("XE", "FCL")) / "experiment.json"
    content = json.loads(path.read_text())
    content["paper"]["CL+Gaussian"] = {"BAL": {"mean": 0.92, "std": 0.01}}  # so that it has a row without runs
    path.write_text(json.dumps(content))
    cifar(tmp_path)
    return [table for results in load_results(tmp_path) for table in tables_of(results)]


def mnist_table(tables: list[Table]) -> Table:
    return next(table for table in tables if table.experiment == "synthetic-mnist")


def cells(table: Table) -> list[tuple[str, str, float | None]]:
    return [
        (row.method, column.name, cell.ours.mean if cell.ours else None)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]


def test_numbers() -> None:
    assert [number(value) for value in (0.925, -0.003, 1.02, 10.5, 0.99999, -0.00001)] == [
        *(".9250", "-.0030", "1.0200", "10.5000", "1.0000", ".0000")
    ]
    assert number(0.003, sign=True) == "+.0030"
    assert spread(Summary(0.5, None, 1)) == ".5000" and spread(None) == "–"  # noqa: RUF001
    assert spread(Published(0.5, 0.01)) == ".5000 ±.0100"
    assert probability(0.00001) == "p<.0001" and probability(0.0321) == "p=.0321"
    assert interval_text(Difference(0.25, 1)) == "+.2500 (one seed)"
    assert interval_text(Difference(0.25, 3)) == "+.2500 (the same for all 3 seeds)"


def test_arrows_are_for_what_is_significant() -> None:
    cells = [Difference(mean, 5, p=0.01, holm=holm) for mean in (0.1, -0.1) for holm in (0.049, 0.05, None)]
    assert [arrow(cell) for cell in cells] == ["↑", "", "", "↓", "", ""] and arrow(None) == ""


def test_csv_has_every_cell_with_all_digits(tables: list[Table]) -> None:
    lines = list(csv.DictReader(io.StringIO(FORMATS["csv"](tables))))
    found = [(line["method"], line["column"], float(line["mean"]) if line["mean"] else None) for line in lines]
    assert found == [cell for table in tables for cell in cells(table)]
    assert {line["seeds"] for line in lines if line["method"] == "CL+Gaussian"} == {"0", "5"}
    assert [line["title"] for line in lines] == [table.title for table in tables for _ in cells(table)]
    assert "nan" not in FORMATS["csv"](tables).lower()


def test_json_is_strict_and_has_every_cell(tables: list[Table]) -> None:
    found = json.loads(FORMATS["json"](tables), parse_constant=lambda word: pytest.fail(word))
    assert [entry["title"] for entry in found] == [table.title for table in tables]
    for entry, table in zip(found, tables, strict=True):
        assert [(cell["method"], cell["column"], cell["mean"]) for cell in entry["cells"]] == cells(table)


def test_markdown_parses_back(tables: list[Table]) -> None:
    table = mnist_table(tables)
    rows = [line for line in FORMATS["markdown"]([table]).splitlines() if line.startswith("|")]
    parsed = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert parsed[0][:4] == ["method", "seeds", "BAL", "BAL, paper"]
    assert parsed[3][:3] == ["CL+Gaussian", "0", "–"]  # noqa: RUF001
    fcl = table.rows[2].cells[1]
    assert fcl.ours is not None and parsed[4][4] == f"**{spread(fcl.ours)} ↑**" and parsed[4][5] == ".6384 ±.0100"
    assert len({len(row) for row in parsed[:5]}) == 1


def test_markdown_and_latex_escape_what_they_must(tables: list[Table], tmp_path: Path) -> None:
    path = tmp_path / "synthetic-mnist" / "experiment.json"
    path.write_text(path.read_text().replace("Synthetic MNIST (Table 1)", "50% of a_b & <b>|*c*"))
    table = mnist_table([table for results in load_results(tmp_path) for table in tables_of(results)])
    assert r"50% of a_b & \<b>\|\*c\*" in FORMATS["markdown"]([table])
    assert r"50\% of a\_b \& $<$b$>$$|$*c*" in FORMATS["latex"]([table])


@pytest.mark.parametrize("form", FORMATS)
def test_names_with_escapes_of_a_terminal_are_shown_without(form: str, tmp_path: Path) -> None:
    path = mnist(tmp_path) / "experiment.json"
    path.write_text(path.read_text().replace("Synthetic MNIST (Table 1)", r"red \u001b[31m\u0007\u202e title"))
    words = FORMATS[form]([table for results in load_results(tmp_path) for table in tables_of(results)])
    assert not set(words) & {"\x1b", "\x07", "\u202e"}
    assert "\N{REPLACEMENT CHARACTER}[31m" in words


def test_names_stay_names_in_spreadsheets_and_latex(tmp_path: Path) -> None:
    for name in ("=1+1", "[2]", "*x"):
        folder = mnist(tmp_path / name, methods=("XE",))
        for path in (folder / "experiment.json", *folder.rglob("record.json")):
            path.write_text(path.read_text().replace('"XE"', json.dumps(name)))
        tables = [table for results in load_results(folder) for table in tables_of(results)]
        (line, *_) = csv.DictReader(io.StringIO(FORMATS["csv"](tables)))
        assert line["method"] == (f"'{name}" if name[0] == "=" else name)
        assert f"\n{'' if name[0] == '=' else '{}'}{name} & " in FORMATS["latex"](tables)


def test_latex_is_balanced_and_ascii_but_for_nothing(tables: list[Table]) -> None:
    source = FORMATS["latex"](tables)
    assert source.isascii()
    grids = len(tables) + sum(bool(differences_grid(table).rows) for table in tables)
    for name, count in {"table": len(tables), "tabular": grids}.items():
        assert source.count(rf"\begin{{{name}}}") == source.count(rf"\end{{{name}}}") == count
    bare = re.sub(r"\\[{}]", "", source)
    assert bare.count("{") == bare.count("}")
    body = FORMATS["latex"]([mnist_table(tables)])
    rows = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {line.count("&") for line in rows} == {8, 4} and r"\textbf{" in body
    assert all(mark.text.split(" ")[0] in body for row in differences_grid(mnist_table(tables)).rows for mark in row)
    main, differences = FORMATS["latex"](tables[:1]).split(r"\medskip")
    assert main.count(r"\midrule") == differences.count(r"\midrule") == 2  # under the head, and between the groups


def test_text_has_no_escapes_and_fits(tables: list[Table]) -> None:
    narrow = text(tables, width=80)
    assert "\x1b" not in narrow and max(map(len, narrow.splitlines())) <= 80
    assert "Star: significantly better" in narrow and "Bold" not in narrow
    assert narrow.count("paired t") == 2  # once per experiment
    wide = text(tables)
    assert sum(line.startswith("method") for line in wide.splitlines()) == len(tables)
    assert (
        text(tables, escapes=True).replace("\x1b[1m", "").replace("\x1b[0m", "") == wide != text(tables, escapes=True)
    )


def test_text_keeps_every_number_when_it_is_cut(tables: list[Table]) -> None:
    numbers = [re.findall(r"\.\d{4}", text(tables, width)) for width in (None, 60)]
    assert sorted(numbers[0]) == sorted(numbers[1]) and len(numbers[0]) > 100


def test_columns_line_up(tables: list[Table]) -> None:
    lines = text([mnist_table(tables)]).splitlines()
    head = next(line for line in lines if line.startswith("method"))
    at = [match.start() for match in re.finditer("paper", head)]
    fcl = next(line for line in lines if line.startswith("FCL "))
    assert [fcl[place : place + 5] for place in at] == [".9207", ".6384", ".6896"]


def test_a_cell_with_fewer_seeds_says_so(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    path = path_of(folder, "FCL", 0)
    held = json.loads(path.read_text())
    path.write_text(json.dumps({**held, "scores": {"BAL": 0.9}, "classes": {}}))
    shown = text(tables_of(load_results(folder)[0]))
    assert shown.count("(5 seeds)") == 3


def test_words_stay_words_in_markdown_and_latex() -> None:
    assert (
        table_formats._latex_grid(CellGrid([("method", 1)], [""], [[Mark(" [2em]x")]], frozenset())).count("{} [2em]x")
        == 1
    )
    for words in ("![p](http://x/p.png)", "[a](javascript:x)", "`c`", "&lt;", "~~s~~"):
        assert "\\" in table_formats._cell(words), words
    assert table_formats._no_formula("\n=1+1") == "'\n=1+1" and table_formats._no_formula(" x") == " x"
