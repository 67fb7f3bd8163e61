"""The page: well formed, alone in the world, and holding what the records hold."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import numpy as np
import pytest
from deadlines import within
from fake_records import cifar, mnist, path_of

from poise.errors import RecordError
from poise.records.schema import Results, load_results
from poise.reporting.figures.curves import class_bars, curve, difference_plot, learning_curves, measures
from poise.reporting.figures.svg import (
    ACCURACY,
    Scale,
    colour,
    colours_of,
    element,
    heading,
    heat_map,
    scale_of,
    short,
    text_on,
)
from poise.reporting.page import facts_of, findings, page
from poise.reporting.render import ABBREVIATIONS, meaning_of
from poise.reporting.tables import (
    class_accuracies,
    corruption_accuracies,
    corruption_gaps,
    subtract,
    tables_of,
)

SOURCE = Path(__file__).parents[2] / "src" / "poise"


def parse(html: str) -> ElementTree.Element:
    assert html.startswith("<!DOCTYPE html>\n")
    return ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>\n"))


def change(path: Path, **facts: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def text_of(html: str) -> str:
    return " ".join("".join(parse(html).itertext()).split())


def only(folder: Path) -> Results:
    (results,) = load_results(folder)
    return results


def test_the_page_is_well_formed_and_holds_all_experiments(tmp_path: Path) -> None:
    mnist(tmp_path)
    cifar(tmp_path)
    html = page(load_results(tmp_path))
    headings = [found.text for found in parse(html).iter("h2")]
    assert headings == ["CIFAR-10-C (Table 3)", "Synthetic MNIST (Table 1)"]
    identities = [found.get("id") for found in parse(html).iter() if found.get("id")]
    targets = [found.get("href") for found in parse(html).iter("a")]
    assert sorted(targets) == sorted(f"#{each}" for each in identities) and len(set(identities)) == len(identities)
    assert {"experiment-2", "effects-1", "table-1", "figures-2", "recipes-2"} <= set(identities)


def test_abbreviations_have_tooltips(tmp_path: Path) -> None:
    heads = {found.text: found.get("title") for found in parse(page(load_results(mnist(tmp_path)))).iter("th")}
    assert (
        heads["BAL+UN"]
        == "BAL: the balanced test set, without noise; UN: uniform noise: some pixels become a random grey"
    )
    assert heads["CL+Gaussian"] == "CL+Gaussian: a contrast with noise on all features"
    assert heads["seeds"] is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("PG+FCL", ["PG", "FCL"]),
        ("XE+Gaussian 0.2", ["XE+Gaussian"]),
        ("XE, adjusted", ["XE", "adjusted"]),
        ("NUN 30%", ["NUN"]),
        ("FUN", []),
    ],
)
def test_the_meaning_of_a_name(name: str, words: list[str]) -> None:
    assert meaning_of(name) == "; ".join(f"{word}: {ABBREVIATIONS[word]}" for word in words)


def test_a_method_has_one_colour_on_every_page() -> None:
    pages = [
        ["XE", "FCL", "mixin"],
        ["mixin", "PG+XE", "CL+Gaussian", "FCL 0.01"],
        ["recommended", "XE, adjusted", "XE"],
    ]
    found = [colours_of(methods) for methods in pages]
    assert found[0]["XE"] == found[2]["XE"] and found[0]["FCL"] == found[1]["FCL 0.01"]
    assert found[0]["mixin"] == found[1]["mixin"]
    assert all(len(set(each.values())) == len(each) for each in found)
    many = colours_of([f"m{n}" for n in range(40)])
    assert len(many) == 40 and set(many.values()) == set(range(12))


def test_the_page_opens_with_what_it_is_and_the_effect(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    change(folder / "experiment.json", notice="A miniature of it.")
    html = page(load_results(folder))
    places = [html.index(words) for words in ("A miniature of it.", "Effect: difference from XE", "<table>")]
    assert places == sorted(places)
    assert html.index("<svg") < html.index("<table>")


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    (mnist(tmp_path) / "figures").mkdir()
    (tmp_path / "synthetic-mnist" / "figures" / "a.png").write_bytes(b"\x89PNG")
    html = page(load_results(tmp_path))
    assert "default-src 'none'" in html  # a browser forbids scripts and loading, too
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script|<link|<iframe|\bon[a-z]+=", html)
    for found in parse(html).iter():
        assert found.get("src", "data:").startswith("data:") and found.get("href", "#").startswith("#")


def test_the_page_depends_on_the_files_alone(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    assert page(load_results(folder)) == page(load_results(folder))
    other = mnist(tmp_path / "moved")
    assert page(load_results(folder)) == page(load_results(other))


def test_names_from_files_cannot_break_out(tmp_path: Path) -> None:
    folder = mnist(tmp_path)
    change(folder / "experiment.json", title="<script>alert(1)</script>", class_names=["<b>", '"'])
    change(path_of(folder, "XE", 0), device='"><img src=x>')
    html = page(load_results(folder))
    assert not list(parse(html).iter("script")) and not list(parse(html).iter("img"))
    assert "<script>alert(1)</script>" in text_of(html)


def test_the_numbers_are_on_the_page(tmp_path: Path) -> None:
    results = only(mnist(tmp_path))
    cell = tables_of(results)[0].rows[2].cells[1]
    strong = ["".join(found.itertext()) for found in parse(page([results])).iter("strong")]
    assert cell.ours is not None and any(found.startswith(f"{cell.ours.mean:.4f}"[1:]) for found in strong)
    words = text_of(page([results]))
    assert (
        "paper .6384 ±.0100" in words and "paired t" in words and "FCL against XE: significantly better in 2" in words
    )
    assert "TopBottom(k=256)" in words and "abc1234" in words and "torch 2.11.0" in words


def test_sections_appear_only_with_their_data(tmp_path: Path) -> None:
    digits, pictures = text_of(page(load_results(mnist(tmp_path)))), text_of(page(load_results(cifar(tmp_path))))
    assert "Accuracy per class: BAL+UN" in digits and "per corruption and severity" not in digits
    assert "per corruption and severity" in pictures and "Accuracy per class" not in pictures
    assert "Leakage" in pictures and "Leakage" not in digits
    bare = mnist(tmp_path / "bare", methods=("XE",), seeds=1)
    change(path_of(bare, "XE", 0), log=[], classes={}, peak_memory=None, seconds=None, versions={}, commit=None)
    words = text_of(page(load_results(bare)))
    assert "Learning curves" not in words and "Differences" not in words and "One seed" in words and "nan" not in words


@pytest.mark.parametrize("which", ["picture", "folder"])
def test_a_link_among_the_figures_shows_nothing_of_the_machine(tmp_path: Path, which: str) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.png").write_bytes(b"\x89PNG secret")
    figures = mnist(tmp_path / "runs") / "figures"
    if which == "folder":
        figures.symlink_to(tmp_path / "private")
    else:
        figures.mkdir()
        (figures / "a.png").symlink_to(tmp_path / "private" / "a.png")
    with pytest.raises(RecordError, match=r"figures(/a\.png)? is a link: put what it leads to in its place"):
        page(load_results(tmp_path / "runs"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_among_the_figures_or_records_is_named(tmp_path: Path) -> None:
    figures = mnist(tmp_path) / "figures"
    figures.mkdir()
    os.mkfifo(figures / "a.png")
    with within(5), pytest.raises(RecordError, match=r"a\.png cannot be read: it is a pipe, not a file"):
        page(load_results(tmp_path))
    record = path_of(tmp_path / "synthetic-mnist", "FCL", 1)
    record.unlink()
    os.mkfifo(record)
    with within(5), pytest.raises(RecordError, match=r"record\.json cannot be read: it is a pipe, not a file"):
        load_results(tmp_path)


def test_own_figures_are_inside_with_their_names(tmp_path: Path) -> None:
    figures = mnist(tmp_path) / "figures"
    figures.mkdir()
    contents = {"b.png": b"\x89PNG...", "a & b.svg": b"<svg xmlns='x'/>"}
    for name, content in contents.items():
        (figures / name).write_bytes(content)
    (figures / "notes.txt").write_text("not a figure")
    root = parse(page(load_results(tmp_path)))
    images = [found.get("src", "") for found in root.iter("img")]
    assert [base64.b64decode(image.partition(",")[2]) for image in images] == [contents["a & b.svg"], contents["b.png"]]
    assert images[0].startswith("data:image/svg+xml;base64,") and images[1].startswith("data:image/png;base64,")
    assert [found.text for found in root.iter("figcaption")] == ["a & b.svg", "b.png"]


def test_a_figure_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    figures = mnist(tmp_path) / "figures"
    (figures / "folder.png").mkdir(parents=True)
    with pytest.raises(RecordError, match=r"folder\.png cannot be read"):
        page(load_results(tmp_path))


def test_elements_escape_text_and_keep_markup() -> None:
    made = element("g", "a<b\x07", element("text", "&"), class_='"', id=None)
    assert made == '<g class="&#34;">a&lt;b\N{REPLACEMENT CHARACTER}<text>&amp;</text></g>'


def test_scales_and_ticks() -> None:
    assert [Scale(0, 10, 100, 0)(value) for value in (0, 5, 10)] == [100, 50, 0]
    assert Scale(0.01, 1, 0, 100, logarithmic=True)(0.1) == pytest.approx(50)
    assert Scale(0, 1, 0, 1).ticks() == [0, 0.25, 0.5, 0.75, 1] and Scale(2, 2, 0, 1).ticks() == [2]
    assert Scale(-0.011, 0.021, 0, 1).ticks(3) == [0, 0.02]
    assert Scale(-0.6, 0.92, 0, 1).ticks(3) == [-0.5, 0, 0.5]  # steps of 1 would leave 0 alone
    assert Scale(0.01, 2, 0, 1, logarithmic=True).ticks() == pytest.approx([0.01, 0.03, 0.1, 0.3, 1])
    assert scale_of([3, 3], 0, 1)(3) == pytest.approx(0.5) and scale_of([0.0], 0, 1)(0) == pytest.approx(0.5)
    assert [short(v) for v in (0, 0.25, -0.5, 400, 2.5e-4, 1e6)] == ["0", ".25", "-.5", "400", "2.5e-4", "1e6"]


def test_colours_can_be_read() -> None:
    def luminance(code: str) -> float:
        linear = [(int(code[n : n + 2], 16) / 255) ** 2.2 for n in (1, 3, 5)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    for share in np.linspace(0, 1, 21):
        back = colour(ACCURACY, share)
        pair = sorted([luminance(back), luminance(text_on(back))])
        assert pair[1] / pair[0] > 4
    assert colour(ACCURACY, -1) == colour(ACCURACY, 0) == "#182042" and colour(ACCURACY, 2) == "#eaf0c4"


def test_curves_have_every_seed_and_the_mean(tmp_path: Path) -> None:
    results = only(mnist(tmp_path, seeds=4))
    assert measures(results) == ["validation", "xe", "contrast", "weight", "learning_rate"]
    drawn = learning_curves(results, "xe", list(results.runs))
    assert (drawn.count('class="seed s2"'), drawn.count('class="mean s2"')) == (4, 1)
    assert learning_curves(results, "contrast", list(results.runs)).count("s0") == 0  # XE has no contrast
    run = results.runs["FCL"][0]
    assert curve(run, "xe")[3] == run.log[2]["loss"]["xe"] and len(curve(run, "validation")) == 20


def test_long_curves_stay_small(tmp_path: Path) -> None:
    folder = mnist(tmp_path, seeds=1, methods=("XE",))
    change(path_of(folder, "XE", 0), log=[{"epoch": n, "loss": {"xe": 1 / n}} for n in range(1, 5001)])
    assert len(learning_curves(only(folder), "xe", ["XE"])) < 6000


def test_heat_maps_hold_the_means_over_seeds(tmp_path: Path) -> None:
    folder = cifar(tmp_path, seeds=3)
    cells = corruption_accuracies(only(folder), "FCL")
    values = [json.loads(path_of(folder, "FCL", seed).read_text())["scores"]["fog/4"] for seed in range(3)]
    assert cells["fog"][4] == pytest.approx(np.mean(values)) and len(cells) == 19
    drawn = heat_map("FCL", cells)
    assert drawn.count("<rect") == 19 * 6 and f"fog, severity 4: {np.mean(values):.4f}".replace("0.", ".") in drawn
    assert subtract(cells, {"fog": {4: 0.5}}) == {"fog": {4: pytest.approx(np.mean(values) - 0.5)}}


def test_differences_are_over_the_seeds_that_both_methods_have(tmp_path: Path) -> None:
    folder = cifar(tmp_path, seeds=3)
    shutil.rmtree(path_of(folder, "FCL", 2).parent)

    def mean(method: str) -> float:
        read = [json.loads(path_of(folder, method, seed).read_text()) for seed in range(2)]
        return fmean(record["scores"]["fog/4"] for record in read)

    gaps = corruption_gaps(only(folder), "FCL", "XE")
    assert gaps["fog"][4] == pytest.approx(mean("FCL") - mean("XE")) and len(gaps) == 19


def test_rare_classes_stand_apart(tmp_path: Path) -> None:
    results = only(mnist(tmp_path))
    shares = class_accuracies(results, "FCL", "BAL")
    counts = json.loads(path_of(tmp_path / "synthetic-mnist", "FCL", 2).read_text())["classes"]["BAL"]
    assert shares is not None and shares.shape == (6, 15) and shares[2, 12] == counts[12][0] / counts[12][1]
    drawn = class_bars("FCL", shares, (), (10, 11, 12, 13, 14), 2)
    assert f"rare {shares[:, 10:].mean():.3f}".replace("0.", ".") in drawn
    assert f"other {shares[:, :10].mean():.3f}".replace("0.", ".") in drawn
    assert drawn.count('class="f2"') == 15
    assert class_accuracies(results, "FCL", "nothing") is None


@pytest.mark.parametrize(("most", "folded"), [(2, False), (1, True)])
def test_many_sentences_are_folded_away(tmp_path: Path, monkeypatch, most: int, folded: bool) -> None:
    monkeypatch.setattr("poise.reporting.page._OPEN", most)
    results = load_results(mnist(tmp_path))[0]
    said = findings(tables_of(results)[0])
    html = page([results])
    assert len(said) == 2 and all(line in html for line in said)
    assert ("<summary>2 comparisons</summary>" in html) is folded


def test_findings_know_that_lower_can_be_better(tmp_path: Path) -> None:
    tables = {table.name: table for table in tables_of(only(cifar(tmp_path, "imagenet-c")))}
    assert "FCL against XE: significantly better in 1 of 1 columns (mCE)." in findings(tables["mce"])


def test_facts_are_left_out_when_unknown(tmp_path: Path) -> None:
    folder = mnist(tmp_path, seeds=2)
    runs = list(only(folder).runs["FCL"].values())
    facts = facts_of(runs)
    assert facts["time"].startswith("12.8 s per run, 26 s") and facts["memory"] == "118 MiB at most"
    assert facts["trunk"].startswith("epochs 2 shared") and facts["seeds"] == "0-1"
    assert "trunk" not in facts_of(list(only(folder).runs["XE"].values()))


def test_reporting_never_imports_torch() -> None:
    names = sorted(path.stem for path in (SOURCE / "reporting").glob("*.py") if path.stem != "__init__")
    code = f"""
import sys, types, importlib
sys.modules["torch"] = sys.modules["matplotlib"] = None
poise = types.ModuleType("poise"); poise.__path__ = [{str(SOURCE)!r}]; sys.modules["poise"] = poise
for name in {names}: importlib.import_module(f"poise.reporting.{{name}}")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_title_that_is_too_long_keeps_its_ends() -> None:
    long = "XE+Gaussian, running statistics, from epoch 300"
    cut = ElementTree.fromstring(heading(34, long))
    assert cut.text == "XE+Gaussian, running…tics, from epoch 300" and cut.findtext("title") == long
    assert ElementTree.fromstring(heading(0, long[:45])).text == long[:45]
    assert len(ElementTree.fromstring(heading(0, 100 * "a")).text or "") == 45


@pytest.mark.parametrize(("name", "lines"), [("FCL", 1), ("Gaussian augmentation", 2)])
def test_a_long_name_does_not_run_into_its_numbers(tmp_path: Path, name: str, lines: int) -> None:
    table = tables_of(only(mnist(tmp_path, methods=("XE", "FCL"))))[0]
    rows = tuple(replace(row, method=name) if row.method == "FCL" else row for row in table.rows)
    drawn = difference_plot(replace(table, rows=rows), 1, ["XE", name])
    texts = [found for found in ElementTree.fromstring(str(drawn)).iter("text") if found.get("class") == "small"]
    (label,) = (found for found in texts if (found.text or "").startswith(name))
    (numbers,) = (found for found in texts if "p" in (found.text or "") and found is not label)
    assert len({label.get("y"), numbers.get("y")}) == lines
    letters = len(label.text or "") + len(numbers.text or "")
    room = float(numbers.get("x", 0)) - float(label.get("x", 0))
    assert lines == 2 or 5.6 * letters < room  # as wide as a browser sets them


def test_levels_of_noise_have_a_heat_map(tmp_path: Path) -> None:
    folder = mnist(tmp_path, seeds=2, methods=("XE",))
    for seed, value in ((0, 0.8), (1, 0.6)):
        path = path_of(folder, "XE", seed)
        scores = {**json.loads(path.read_text())["scores"], "UN/5": value, "UN/20": value / 2, "corner/top-k": 0.5}
        change(path, scores=scores)
    assert corruption_accuracies(only(folder), "XE") == {"UN": {5: pytest.approx(0.7), 20: pytest.approx(0.35)}}
    html = page(load_results(folder))
    assert "UN, severity 20: .3500" in text_of(html) and "The severity of UN is the number" in text_of(html)
