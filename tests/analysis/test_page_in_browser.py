"""The page as a browser shows it, at the width of a desk and of a phone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.__main__ import main

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_PROBE = """
<script>
const wide = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll')
  && !e.closest('svg') && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
document.title = JSON.stringify({width: document.documentElement.clientWidth,
  scroll: document.documentElement.scrollWidth, wide: wide.map(e => e.tagName),
  flat: [...document.querySelectorAll('figure svg')].filter(
    e => e.getBoundingClientRect().height < 60).length});
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_spills_over_the_page(width: int, tmp_path: Path, make_sweep: Callable[..., Path]) -> None:
    variants = {"grpo": {}, "a variant with a very long name, " * 3: {}, "x" * 80: {}}
    sweep = make_sweep(
        tmp_path, variants=variants, baseline="grpo", special={("grpo", 1): {"steps": 5, "result": None}}
    )
    assert main(["report", str(sweep)]) == 0
    page = tmp_path / "probe.html"
    # an iframe of the wanted width: headless windows refuse to be narrower than 500 pixels
    inner = (sweep / "report" / "report.html").read_text().replace("</body>", _PROBE + "</body>")
    (tmp_path / "inner.html").write_text(inner)
    page.write_text(
        f'<iframe id="f" src="inner.html" style="width:{width}px;height:900px;border:0" onload="'
        "document.title = document.getElementById('f').contentDocument.title\"></iframe>"
    )
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--hide-scrollbars",
            "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=5000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = done.stdout.split("<title>")[1].split("</title>")[0].replace("&quot;", '"')
    assert f'"width":{width}' in title
    assert f'"scroll":{width}' in title
    assert '"wide":[]' in title
    assert '"flat":0' in title
