"""Turns ops.json into the tables of docs/performance_ops.md, between its two markers."""

import json
import statistics
import sys

BEGIN, END = "<!-- begin ops -->", "<!-- end ops -->"
# The groups whose operators are measured at the same sizes: a column each.
BY_SIZE = ("elementwise", "broadcast", "copy", "reduce", "index", "sort")


def micros(seconds):
    value = seconds * 1e6
    if value >= 1e4:
        return f"{value / 1e3:,.1f} ms"
    return f"{value:.2f} µs" if value < 100 else f"{value:,.0f} µs"


def raised(text):
    for digit, small in zip("123457", "¹²³⁴⁵⁷", strict=True):
        text = text.replace(f"^{digit}", small)
    return text


def marked(ratio):
    return f"**{ratio:.2f}**" if ratio > 2 else f"{ratio:.2f}"


def mean(ratios):
    return f"{statistics.geometric_mean(ratios):.2f}" if ratios else ""


def summary(rows, threads):
    lines = ["| group | " + " | ".join(f"threads: {t}" for t in threads) + " | above 2 |"]
    lines += ["|---" * (len(threads) + 2) + "|"]
    for group in list(dict.fromkeys(row[0] for row in rows)) + ["all"]:
        of_group = [row for row in rows if group in ("all", row[0])]
        ratios = [(row[3], row[4] / row[5]) for row in of_group]
        means = " | ".join(mean([r for t, r in ratios if t == threads_]) for threads_ in threads)
        above = sum(r > 2 for _, r in ratios)
        lines.append(f"| {group} | {means} | {above} of {len(ratios)} |")
    return lines


def by_size(rows, threads):
    """A row for each operator; the ratios with each number of threads side by side."""
    sizes = list(dict.fromkeys(row[2] for row in rows))
    lines = ["| operator | " + " | ".join(raised(s) for s in sizes) + " |"]
    lines += ["|---" * (len(sizes) + 1) + "|"]
    for name in dict.fromkeys(row[1] for row in rows):
        cells = []
        for size in sizes:
            found = {r[3]: r[4] / r[5] for r in rows if r[1] == name and r[2] == size}
            cells.append(" / ".join(marked(found[t]) for t in threads if t in found))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def by_shape(rows, threads):
    heads = " | ".join(f"chxd, {t} | PyTorch, {t} | ratio" for t in threads)
    lines = [f"| operator | shape | {heads} |", "|---" * (2 + 3 * len(threads)) + "|"]
    for name, size in dict.fromkeys((row[1], row[2]) for row in rows):
        cells = []
        for t in threads:
            for row in rows:
                if row[1:4] == [name, size, t]:
                    cells += [micros(row[4]), micros(row[5]), marked(row[4] / row[5])]
        lines.append(f"| {name} | {raised(size)} | " + " | ".join(cells) + " |")
    return lines


def tables(result):
    rows = result["rows"]
    threads = sorted({row[3] for row in rows})
    lines = [
        f"Measured {result['date']} on {result['machine']}, against PyTorch {result['torch']}; "
        f"medians of {result['rounds']} alternating runs; load average {result['load']:.1f}. Geometric "
        "means of chxd's time divided by PyTorch's:",
        "",
        *summary(rows, threads),
    ]
    for group in dict.fromkeys(row[0] for row in rows):
        of_group = [row for row in rows if row[0] == group]
        lines += ["", f"### {group.capitalize()}", ""]
        lines += (by_size if group in BY_SIZE else by_shape)(of_group, threads)
    return "\n".join(lines)


def main():
    results, page = sys.argv[1:]
    with open(results) as file:
        text = tables(json.load(file))
    with open(page) as file:
        before, _, rest = file.read().partition(BEGIN)
        _, _, after = rest.partition(END)
    with open(page, "w") as file:
        file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
