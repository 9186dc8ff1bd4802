"""The operator reference: the page of //docs:ops.md, cut into a page for each group."""

import re

TITLES = {"linalg": "Linear algebra", "math": "Mathematical functions"}


def pages(text):
    """{URI: text}, the list of all operators first."""
    preface, *parts = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)
    groups = dict(zip(parts[::2], parts[1::2], strict=True))
    index = [preface.rstrip(), "", "| group | operators |", "|---|---|"]
    found = {}
    for group, body in groups.items():
        # One line of the group's table: | [`abs`, `absolute`](#abs) *internal* | kernel | ...
        names = re.findall(r"^\| \[(`.*?`)\]\(#(\w+)\)", body, re.MULTILINE)
        links = ", ".join(f"[{name}]({group}.md#{anchor})" for name, anchor in names)
        index.append(f"| [{group}]({group}.md) | {links} |")
        # A permanent address that does not depend on how headings become anchors.
        body = re.sub(r"^### (\w+)$", r"### `\1` { #\1 }", body, flags=re.MULTILINE)
        found[f"operators/{group}.md"] = f"# {TITLES.get(group, group.capitalize())}\n{body}"
    return {"operators/index.md": "\n".join(index) + "\n"} | found
