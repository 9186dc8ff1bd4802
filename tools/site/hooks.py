"""Hooks of MkDocs: pages that are made from other files, and links that leave docs/.

$CHX_SITE_STAGE is a folder with the package chx, its stubs and ops.md (tools/docs.sh).
"""

import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, os.path.dirname(__file__))
import notebook
import operator_pages
import python_pages

ROOT = Path(__file__).resolve().parents[2]
STAGE = Path(os.environ["CHX_SITE_STAGE"])

# Documents outside of docs/ that have a page. docs/index.md stands for README.md, and includes some.
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "deploy/README.md": "deployment.md",
}

# Code, which is left alone, or a link, or a document that is named by its path.
TOKEN = re.compile(
    r"^(?P<fence>`{3,}).*?^(?P=fence)$|`[^`\n]+`"
    r"|(?<!!)\[(?P<text>(?:[^\[\]]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)"
    r"|(?<![\w/])docs/(?P<bare>[\w/]+\.md)\b",
    re.MULTILINE | re.DOTALL,
)
INCLUDE = re.compile(r"^<!-- include (?P<path>\S+) (?P<name>\w+) -->$", re.MULTILINE)


def source_of(uri):
    """The file, from the repository's root, that a page was made of."""
    if uri == "index.md":
        return "docs/index.md"
    return next((path for path, page in ELSEWHERE.items() if page == uri), f"docs/{uri}")


def page_of(path):
    """The page of a file, or None."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def rewrite_links(text, source, uri, pages):
    """Makes links to files with a page lead there; of others only the path is left.

    Args:
      text: Markdown.
      source: the file, from the repository's root, that the text is of.
      uri: the page that it stands on.
      pages: the URIs of all pages.
    """
    folder = os.path.dirname(uri) or "."

    def replaced(match):
        if match["bare"]:
            if match["bare"] not in pages or match["bare"] == uri:
                return match[0]
            return f"[{match[0]}]({os.path.relpath(match['bare'], folder)})"
        target = match["target"]
        if target is None or re.match(r"\w+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        page = page_of(path)
        if page in pages:
            return f"[{match['text']}]({os.path.relpath(page, folder)}{'#' * bool(anchor)}{anchor})"
        if not (ROOT / path).exists():
            raise ValueError(f"{source}: a link to {target}, which is not there")
        return match["text"] if path in match["text"] else f"{match['text']} (`{path}`)"

    return TOKEN.sub(replaced, text)


def included(match):
    """The lines between <!-- begin NAME --> and <!-- end NAME --> of a file."""
    text = (ROOT / match["path"]).read_text()
    found = re.search(
        f"<!-- begin {match['name']} -->\n(.*?)<!-- end {match['name']} -->", text, re.DOTALL
    )
    if found is None:
        raise ValueError(f"{match['path']} has no section {match['name']}")
    return found[1]


def decisions():
    """The list of decisions, from their files' first lines."""
    text = "# Decisions\n\nWhy things are as they are, in the order in which they were decided.\n\n"
    for path in sorted((ROOT / "docs/decisions").glob("0*.md")):
        title = path.read_text().splitlines()[0].lstrip("# ")
        text += f"* [{title}]({path.name})\n"
    return text


def generated_pages():
    """{URI: text or bytes} of the files that are not in docs/."""
    pages = {page: (ROOT / path).read_text() for path, page in ELSEWHERE.items()}
    del pages["index.md"]  # docs/ has it
    pages["decisions/index.md"] = decisions()
    pages |= notebook.pages(ROOT / "docs/first_tour.ipynb")
    pages |= operator_pages.pages((STAGE / "ops.md").read_text())
    pages |= python_pages.pages(STAGE)
    return pages


def nav_items(nav, folders):
    """Replaces a folder in the nav, "operators/", by its pages."""
    for item in nav:
        for title, value in item.items():
            if isinstance(value, list):
                nav_items(value, folders)
            elif value.endswith("/"):
                item[title] = folders[value]


def on_config(config):
    """Puts the pages of a folder into the nav, and those of docs/ that it lacks under Guides."""
    names = list(generated_pages())
    decided = sorted(p.name for p in (ROOT / "docs/decisions").glob("0*.md"))
    names += [f"decisions/{name}" for name in decided]
    folders = {
        folder: [n for n in names if n.startswith(folder)]
        for folder in ("operators/", "python/", "decisions/")
    }
    nav_items(config.nav, folders)
    named = str(config.nav)
    (guides,) = (item["Guides"] for item in config.nav if "Guides" in item)
    guides += [p.name for p in sorted((ROOT / "docs").glob("*.md")) if f"'{p.name}'" not in named]
    return config


def on_files(files, config):
    for uri, content in generated_pages().items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    pages = {file.src_uri for file in files if file.is_documentation_page()}
    if uri == "index.md":
        markdown = INCLUDE.sub(included, markdown)
    if uri.startswith(("operators/", "python/")):
        return markdown
    return rewrite_links(markdown, source_of(uri), uri, pages)
