#!/usr/bin/python3
"""Extracts the code blocks of a page: snippets.py PAGE LANGUAGE OUT... writes them in their order.

Fails unless the page has as many blocks of the language as there are names.
"""

import pathlib
import re
import sys


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def main():
    page, language, *outs = sys.argv[1:]
    found = blocks(pathlib.Path(page).read_text(encoding="utf-8"), language)
    if len(found) != len(outs):
        sys.exit(f"{page} has {len(found)} blocks of {language}, expected {len(outs)}")
    for out, text in zip(outs, found, strict=False):
        pathlib.Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
