"""The page of the notebook: its cells, and the outputs that are stored in it."""

from nbconvert import MarkdownExporter


def pages(path):
    """{URI: text or bytes}: the page and its images."""
    text, resources = MarkdownExporter().from_filename(
        str(path), resources={"output_files_dir": "first_tour_files", "unique_key": "first_tour"}
    )
    return {"first_tour.md": text} | resources["outputs"]
