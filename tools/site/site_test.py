"""The site in dist/docs: complete, without dead links, and readable without a network."""

import importlib
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import chx
import pytest

SITE = Path(__file__).resolve().parents[2] / "dist/docs"
MODULES = [
    "chx",
    *(
        f"chx.{m}"
        for m in "array_api chainer distributed kernels linalg optimizers random runs".split()
    ),
]


class Page(HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, path):
        super().__init__()
        self.ids = set()
        self.links = []  # to follow
        self.loads = []  # to show the page
        self.classes = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[a] for a in ("id", "name") if found.get(a)}
        self.classes |= set((found.get("class") or "").split())
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(found["href"])
        elif found.get("src"):
            self.loads.append(found["src"])


@cache
def page(path):
    return Page(path)


def pages():
    return sorted(p for p in SITE.rglob("*.html") if p.parent.name != "search")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_a_page(module):
    ids = set().union(*(page(p).ids for p in (SITE / "python").glob("*.html")))
    found = importlib.import_module(module)
    names = [n for n in getattr(found, "__all__", dir(found)) if not n.startswith("_")]
    names = [n for n in names if n != "annotations"]  # of __future__
    if module == "chx.random":
        assert {"normal", "Generator"} <= set(names)
    submodules = {m.split(".")[1] for m in MODULES if "." in m} | {"chainerx"}
    if module == "chx":
        names = [n for n in names if n not in submodules]
    assert [n for n in names if f"{module}.{n}" not in ids] == []


def test_every_method_of_arrays_is_on_a_page():
    ids = page(SITE / "python/arrays.html").ids
    names = [n for n in dir(chx.ndarray) if not n.startswith("_")]
    assert [n for n in names if f"chx.ndarray.{n}" not in ids] == []


def test_nothing_is_loaded_from_the_network():
    local = {"", "data", "javascript"}
    loads = [(p.name, u) for p in pages() for u in page(p).loads]
    assert [(p, u) for p, u in loads if urlsplit(u).scheme not in local] == []
    for sheet in SITE.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?https?:", sheet.read_text()), sheet
    # The theme would load what draws them.
    assert [p for p in pages() if "mermaid" in page(p).classes] == []


def leads_somewhere(path, link):
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists() or target.suffix != ".html" or not parts.fragment:
        return target.exists()
    # doxygen makes some anchors when a page is shown.
    return SITE / "cpp" in path.parents or unquote(parts.fragment) in page(target).ids


def test_links_lead_somewhere():
    # Links of 404.html are those of a server's root.
    found = [(p, u) for p in pages() if p.name != "404.html" for u in page(p).links + page(p).loads]
    assert len(found) > 1000
    assert [(p.name, u) for p, u in found if not leads_somewhere(p, u)] == []


@pytest.mark.parametrize(
    "query", ["connect", "softmax_cross_entropy", "OutOfMemoryError", "mushrooms"]
)
def test_the_search_knows(query):
    text = (SITE / "search/search_index.js").read_text()
    index = json.loads(text.removeprefix("var __index = "))
    assert [d for d in index["docs"] if query in d["title"] + d["text"]]
