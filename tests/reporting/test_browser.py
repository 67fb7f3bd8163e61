"""The pages in headless Chromium: phone and desktop, light and dark, and in print."""

import html
import json
import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fake_evaluations import THEIRS, evaluated
from fake_records import cifar, mnist
from PIL import Image

from poise.io.documents import write_proved
from poise.records.schema import load_results
from poise.reporting.evaluation_page import evaluation_page
from poise.reporting.leaderboard import leaderboard_page, rows_below
from poise.reporting.page import page
from poise.reporting.sweep_page import Swept, Trial, sweep_page

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.miniature,
    pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed"),
]

WIDTHS = {"phone": 360, "desktop": 1280}
LONG = "XE+Gaussian, running statistics, from epoch 300"
BROKEN = """<!DOCTYPE html><head></head><body style="color: #777; background: #888"><div style="width: 500px">wide</div>
<svg class="figure" viewBox="0 0 20 20"><text>too long</text></svg>
<img src="http://127.0.0.1:9/x.png"><script>throw new Error("broken")</script></body>"""

# Errors are counted from before a frame has begun; all that is folded is opened, and then measured.
MEASURE = """
const luminance = code => code.match(/[\\d.]+/g).slice(0, 3).map(v => (v / 255) ** 2.2)
  .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0.05);
addEventListener("load", () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const inside = frame.contentWindow, root = frame.contentDocument.documentElement;
    for (const each of root.querySelectorAll("details")) each.open = true;
    const style = inside.getComputedStyle(frame.contentDocument.body);
    found[frame.id] = {
      width: inside.innerWidth,
      overflow: root.scrollWidth - root.clientWidth,
      dark: inside.matchMedia("(prefers-color-scheme: dark)").matches,
      ink: luminance(style.color),
      paper: luminance(style.backgroundColor),
      loaded: inside.performance.getEntriesByType("resource").map(entry => entry.name),
      errors: inside.errors,
      cut: [...root.querySelectorAll("svg.figure text")].filter(text => {
        const { x, width } = text.getBBox();
        return x < -1 || x + width > text.ownerSVGElement.viewBox.baseVal.width + 1;
      }).map(text => text.textContent),
    };
  }
  document.body.textContent = JSON.stringify(found);
});
"""
LISTEN = "<script>window.errors = []; addEventListener('error', event => errors.push(event.message))</script>"


def chromium(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    alone = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    command = [str(CHROMIUM), "--headless", *alone, f"--user-data-dir={home / 'profile'}", "--timeout=30000", *words]
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("runs")
    (mnist(out) / "figures").mkdir()
    Image.new("RGB", (1600, 400), "gray").save(out / "synthetic-mnist" / "figures" / "wide.png")
    for path in cifar(out).rglob("*.json"):
        path.write_text(path.read_text().replace("XE+Gaussian", LONG))
    choices = {"objective.weight.peak": ["0.001", "0.01"], "objective.select.k": ["20", "40"]}
    settings = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]
    trials = [Trial(values, {0: 0.9 - place / 20}) for place, values in enumerate(settings)]
    models = [evaluated(name, 0.9, 0.7) for name in (LONG, "XE")]
    pair = {"one": LONG, "other": "XE", "clean": {"value": 0.1, "low": 0.05, "high": 0.15, "p": 0.01, "holm": 0.01}}
    for record in models:
        write_proved(out / "evaluations" / record["model"]["name"] / "evaluation.json", record)
    write_proved(out / "evaluations" / "published.json", THEIRS)
    return {
        "report": page(load_results(out)),
        "evaluation": evaluation_page(models, [pair]),
        "leaderboard": leaderboard_page(rows_below(out / "evaluations")),
        "sweep": sweep_page(Swept("fcl", "Blobs", "FCL", choices, ("validation",), tuple(trials))),
        "broken": BROKEN,
    }


@pytest.fixture(scope="module", params=["light", "dark"])
def seen(request: pytest.FixtureRequest, pages: dict[str, str], tmp_path_factory: Any) -> dict[str, dict[str, Any]]:
    """What a frame of each width measures with each page in it."""
    home = tmp_path_factory.mktemp(request.param)
    frames = [_frame(f"{n} {size}", WIDTHS[size], content) for n, content in pages.items() for size in WIDTHS]
    (home / "all.html").write_text(f"<!DOCTYPE html><script>{MEASURE}</script><body>{''.join(frames)}</body>")
    dark = ["--blink-settings=preferredColorScheme=0"] if request.param == "dark" else []
    dom = chromium(home, *dark, "--dump-dom", f"file://{home}/all.html").stdout
    found = json.loads(html.unescape(re.search("<body>(.*)</body>", dom, re.DOTALL)[1]))  # type: ignore[index]
    return {"scheme": request.param, **found}


def _frame(name: str, width: int, content: str) -> str:
    heard = html.escape(content.replace("<head>", f"<head>{LISTEN}", 1))
    return f'<iframe id="{name}" style="width: {width}px; height: 800px; border: 0" srcdoc="{heard}"></iframe>'


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("name", ["report", "sweep", "evaluation", "leaderboard"])
def test_a_page_fits_and_is_quiet(seen: dict[str, dict[str, Any]], name: str, size: str) -> None:
    found = seen[f"{name} {size}"]
    assert found["width"] == WIDTHS[size] and found["dark"] == (seen["scheme"] == "dark")
    assert found["overflow"] == 0 and found["cut"] == []
    assert found["loaded"] == [] and found["errors"] == []
    light, dark = sorted([found["ink"], found["paper"]], reverse=True)
    assert light / dark > 10 and (found["paper"] == dark) == found["dark"]


def test_a_broken_page_would_be_found(seen: dict[str, dict[str, Any]]) -> None:
    found = seen["broken phone"]
    assert found["cut"] == ["too long"] and found["overflow"] > 100 and 0.5 < found["ink"] / found["paper"] < 2
    assert found["loaded"] == ["http://127.0.0.1:9/x.png"] and "broken" in found["errors"][0]


def test_it_can_be_printed(pages: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(pages["report"])
    chromium(tmp_path, f"--print-to-pdf={tmp_path / 'report.pdf'}", f"file://{tmp_path}/report.html")
    printed = (tmp_path / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF-") and len(re.findall(rb"/Type /Page\b", printed)) > 4
