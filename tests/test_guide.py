"""The guide and README: links that lead somewhere, pages that are found, pictures made again."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import onlinels.datasets

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "demos" / "guide"
PAGES = [ROOT / "README.md", ROOT / "demos" / "benchmarks" / "README.md", *GUIDE.glob("*.md")]
SCRIPTS = sorted({*(GUIDE / "plots").glob("*.py")} - {GUIDE / "plots" / "drawing.py"})
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page):
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page):
    """Return the anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(text_of(page)):
        if not link.startswith("http"):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.is_file(), link
            assert not anchor or anchor in anchors_of(target), link


def test_pages_pictures_and_public_names_are_all_there():
    index = (GUIDE / "index.md").read_text("utf-8")
    everything = "\n".join(page.read_text("utf-8") for page in PAGES)
    for page in GUIDE.glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, re.MULTILINE), page
    for picture in (GUIDE / "images").iterdir():
        assert f"images/{picture.name}" in everything
        assert picture.stat().st_size < 200_000
    reference = (GUIDE / "api.md").read_text("utf-8")
    for name in [*onlinels.__all__, *onlinels.datasets.__all__]:
        assert name == "__version__" or re.search(rf"^ +{name}$", reference, re.MULTILINE), name


def test_commands_name_files_that_are_there():
    for page in PAGES:
        for path in re.findall(r"python (demos/[\w/.]+)", page.read_text("utf-8")):
            assert (ROOT / path).exists(), f"{page}: {path}"


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_pictures_are_made_again(script, tmp_path):
    if script.stem == "time_per_row":
        pytest.importorskip("padasip", reason="padasip comes with the extra bench")
    output = tmp_path / "picture.png"
    subprocess.run([sys.executable, script, "--output", output], check=True, capture_output=True)
    assert output.read_bytes().startswith(b"\x89PNG")
    assert (GUIDE / "images" / f"{script.stem.replace('_', '-')}.png").is_file()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="sphinx comes with the extra docs")
    subprocess.run([sys.executable, GUIDE, "--output", tmp_path], check=True, capture_output=True)
    assert "LeastSquaresClassifier" in (tmp_path / "searchindex.js").read_text("utf-8")
