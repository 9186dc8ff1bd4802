"""The shell commands of a page: its ```sh blocks, those without a language, and indented lines."""

import dataclasses
import re

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^\n|\A)((?:^ {4}\S.*\n(?:^\n(?=^ {4}))?)+)", re.MULTILINE)


@dataclasses.dataclass
class Block:
    """Commands that a reader copies at once."""

    text: str
    line: int


def blocks(text):
    """All blocks of commands, in order. Lines of lists are no commands."""
    found = [
        Block(match[2], text.count("\n", 0, match.start(2)) + 1)
        for match in _FENCE.finditer(text)
        if match[1] in ("", "sh", "bash", "shell", "console")
    ]
    # With the other blocks blanked, so that lines keep their numbers.
    rest = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    found += [
        Block(
            re.sub(r"^ {4}", "", match[1], flags=re.MULTILINE),
            rest.count("\n", 0, match.start(1)) + 1,
        )
        for match in _INDENTED.finditer(rest)
    ]
    return sorted(found, key=lambda block: block.line)
