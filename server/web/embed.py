"""Writes assets.h with the content of files: page/style.css becomes kStyleCss."""

import pathlib
import re
import sys

# Compilers take no longer pieces.
PIECE = 8000


def constant(path):
    """The C++ constant with a file's content."""
    name = "".join(word.capitalize() for word in re.split(r"[._]", path.name))
    text = path.read_text(encoding="utf-8")
    pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)]
    literals = "\n    ".join(f'R"chx({piece})chx"' for piece in pieces)
    return f"inline constexpr absl::string_view k{name} =\n    {literals};\n"


def main():
    paths = [pathlib.Path(arg) for arg in sys.argv[1:]]
    print(
        "#ifndef CHX_SERVER_WEB_ASSETS_H_\n#define CHX_SERVER_WEB_ASSETS_H_\n\n"
        '#include "absl/strings/string_view.h"\n\nnamespace chx::server {\n'
    )
    print("\n".join(constant(path) for path in paths))
    print("}  // namespace chx::server\n\n#endif  // CHX_SERVER_WEB_ASSETS_H_")


if __name__ == "__main__":
    main()
