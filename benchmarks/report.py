"""From what was measured to what is read: Markdown, and the table of the README."""

from __future__ import annotations

from typing import Any

from . import goals
from .first_calls.tables import section as first_calls
from .goals import best_peer, geometric_mean, median, of_limit, ratio, to_best
from .sized.measure import table as sized_table
from .timing import shown
from .training import tables as training

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"  # marks around the table in README.md and docs/benchmarks.md
README_ROWS = (
    *("chains small", "chains in memory", "reductions, last axis", "row-wise", "movement", "products", "convolutions"),
    *("linear algebra", "Fourier transforms", "first call, warm disk"),
)
PEERS = ("numpy", "torch", "jax", "numexpr")
Results = dict[str, Any]


def markdown(results: Results) -> str:
    """The whole report."""
    parts = [_head(results), _limits(results), "## Goals\n\n" + grid(goals.table(results["threads"]))]
    parts.append("A goal is met if every one of its workloads meets it, on one thread and on all; “3 of 6” counts them.")
    for count in results["threads"]:
        parts.append(_workloads(results, count))
    parts += [_programs(results), _training(results), _costs(results), _shapes(results), _passes(results), _small(results)]
    parts += [_by_size(results), _starting(results), _first(results)]
    if "first calls" in results:
        parts.append(first_calls(results["first calls"], grid))
    return "\n\n".join(part for part in parts if part) + "\n"


def grid(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head, and all columns but the first stand at the right."""
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in body])


def threads(count: str) -> str:
    """1 thread, 2 threads."""
    return f"{count} thread{'' if count == '1' else 's'}"


def _head(results: Results) -> str:
    first = next(iter(results["threads"].values()))
    machine = results["machine"]
    versions = ", ".join(f"{first['titles'][name]} {version}" for name, version in first["versions"].items())
    missing = "".join(f" Not installed: {name}." for name in first["missing"])
    load = ", ".join(f"{value:.1f}" for value in machine["load"])
    lines = [
        "# Tenxor beside its peers",
        f"{results['date']}, {machine['processor']}, {machine['cpus']} CPUs, Python {machine['python']}. {versions}.{missing}",
    ]
    if results["quick"]:
        lines.append("**A quick run, with few rounds: for development, not for comparison.**")
    lines.append(
        "All contenders of one number of threads run in one process, which may use as many CPUs as threads; NumPy has one"
        " thread for this anyway. Results are held against NumPy in float64 first. Then the contenders take turns, and medians"
        " over the rounds are compared; each call makes its result anew. Where a library has several ways to say a line, the"
        " fastest counts; JAX's lines are under `jit`. **×** is how many times as fast as the peer Tenxor is: more than 1 is"
        " faster. **Of the limit** is the least time in which this machine could do the work, as a part of Tenxor's: operands read"
        " once and results written once at the bandwidth below, or additions and multiplications at the FMA peak below, whichever"
        f" takes longer (an elementary function counts as no arithmetic). The machine's load before the run was {load}."
    )
    return "\n\n".join(lines)


def _limits(results: Results) -> str:
    counts = results["threads"]
    names = list(next(iter(counts.values()))["limits"])
    rows = [["the machine's limits", *map(threads, counts)]]
    for name in names:
        unit = "GFLOP/s" if name.startswith("fma") else "GB/s"
        rows.append([name, *[f"{result['limits'][name] / 1e9:.1f} {unit}" for result in counts.values()]])
    return "## Limits\n\n" + grid(rows)


def times(value: float | None) -> str:
    """A ratio; a dash where there is none."""
    return "–" if value is None else f"{value:.2f}×" if value < 99.5 else f"{value:.0f}×"


def _workloads(results: Results, count: str) -> str:
    result = results["threads"][count]
    peers = [name for name in PEERS if name in result["versions"]]
    titles = [result["titles"][name] for name in peers]
    lines = [f"## {threads(count).capitalize()}"]
    families = list(dict.fromkeys(row["family"] for row in result["workloads"].values()))
    for family in families:
        rows = [[family, "Tenxor", *titles, *[f"× {t}" for t in titles], "× best", "best peer", "of the limit"]]
        notes: dict[str, None] = {}
        for name, row in result["workloads"].items():
            if row["family"] != family:
                continue
            best = best_peer(row)
            found = [median(row, peer) for peer in peers]
            rows.append(
                [
                    name,
                    shown(row["seconds"]["tenxor"]["median"]),
                    *["–" if seconds is None else shown(seconds) for seconds in found],
                    *[times(ratio(row, peer)) for peer in peers],
                    f"**{times(to_best(row))}**",
                    "–" if best is None else result["titles"][best],
                    f"{100 * of_limit(row):.0f} %, {row['limited by']}",
                ]
            )
            notes |= {f"{result['titles'].get(p, p)} {why}": None for p, why in row["absent"].items()}
        lines.append(grid(rows))
        if notes:
            lines.append(f"Without: {'; '.join(notes)}.")
    return "\n\n".join(lines)


def programs_table(rows: dict[str, Any], titles: dict[str, str]) -> list[list[str]]:
    """A row for each program."""
    peers = [name for name in PEERS if any(name in row["seconds"] for row in rows.values())]
    table = [["program", "", "Tenxor", *[titles[p] for p in peers], *[f"× {titles[p]}" for p in peers], "first run"]]
    for name, row in rows.items():
        found = [median(row, peer) for peer in ("tenxor", *peers)]
        cells = ["–" if seconds is None else shown(seconds) for seconds in found]
        cells += [times(ratio(row, peer)) for peer in peers]
        table.append([name, row["family"].split()[0], *cells, shown(row["first"])])
    return table


def _programs(results: Results) -> str:
    """Whole programs, on one thread."""
    result = next(iter(results["threads"].values()))
    rows = result.get("programs")
    if not rows:
        return ""
    return (
        "## Programs\n\nEach is written for each library as its users would write it (`benchmarks/programs`), and gives the same"
        " answer in all. Large are those that mostly do something to more than 20,000 elements at once; the others are"
        " a matter of Python. The first run is Tenxor's with nothing compiled or planned.\n\n"
        + grid(programs_table(rows, result["titles"]))
    )


def _training(results: Results) -> str:
    """Steps of training, on one thread."""
    rows = next(iter(results["threads"].values())).get("training")
    if not rows:
        return ""
    return (
        "## Training\n\nForward, backward and AdamW's update, or what the line says, on one thread: PyTorch runs eagerly, with its fused"
        " AdamW, JAX under `jit`. All begin with the same weights, and their first losses agree. The memory is the most that tensors take"
        f" in a step. {training.outcomes(rows)}\n\n" + grid(training.table(rows))
    )


def _costs(results: Results) -> str:
    """Where Tenxor's time goes."""
    counts = results["threads"]
    rows = [["Tenxor's time"]]
    for n in counts:
        rows[0] += [f"total, {threads(n)}", "kernel", "Python"]
    rows[0] += ["on more threads", "first call", "compile", "kernels", "JAX's compile"]
    one = next(iter(counts.values()))["workloads"]
    for name in one:
        cells = [name]
        for result in counts.values():
            row = result["workloads"][name]
            total = row["seconds"]["tenxor"]["median"]
            cells += [shown(total), shown(row["kernel"]), shown(row["python"])]
        first = one[name]["first"]
        ours, theirs = first["tenxor"], first.get("jax")
        cells += [
            times(goals.speed_up(counts, name)) + (" †" if one[name]["compute bound"] else ""),
            shown(ours["first"]),
            shown(max(0.0, ours["first"] - ours["warm"])),
            str(ours["compiles"]),
            "–" if theirs is None else shown(max(0.0, theirs["first"] - theirs["warm"])),
        ]
        rows.append(cells)
    return (
        "## Python, compiling, kernels\n\n"
        "The total is that of the tables above, beside the peers. What of it is the kernels' and what is Python's is measured on calls"
        " apart, so the two need not add up to it: the kernels' is from the first thread's entry to the last one's exit, Python's"
        " is the rest: building nodes, finding the plan, memory, handing out threads. What"
        " compiling takes is the first call in a process that has compiled other things before, with nothing on disk, less a warm"
        " call. † is meant for the goal of compute-bound work.\n\n" + grid(rows)
    )


def _shapes(results: Results) -> str:
    rows: list[list[str]] = []
    for n, result in results["threads"].items():
        if "new shapes" not in result:
            continue
        found = result["new shapes"]
        if not rows:
            rows.append(["100 new shapes of one expression", *[result["titles"][name] for name in found["seconds"]]])
        cells = []
        for name, seconds in found["seconds"].items():
            compiled = found["compiles"].get(name)
            cells.append(shown(seconds) + ("" if compiled is None else f", {compiled} compile{'s' * (compiled != 1)}"))
        rows.append([threads(n), *cells])
    return "## New shapes\n\n" + grid(rows) if rows else ""


def _passes(results: Results) -> str:
    """What is met for the first time, and again, on one thread."""
    result = next(iter(results["threads"].values()))
    found = result.get("passes")
    if not found:
        return ""
    peers = list(next(iter(found.values())))
    rows = [["float64", *[f"{result['titles'][p]}, {which}" for p in peers for which in ("first", "second")]]]
    rows += [[f"`{line}`", *[shown(seconds) for p in peers for seconds in row[p]]] for line, row in found.items()]
    return (
        "## First and second pass\n\nSmall work on each of 100 rows of 300 elements, or of sizes n from 50 to 150, and as many times as"
        " large: medians of the first pass over them and of the second. 50 others were met before.\n\n" + grid(rows)
    )


def _small(results: Results) -> str:
    """Python's cost of small things, on one thread."""
    result = next(iter(results["threads"].values()))
    found = result.get("small operations")
    if not found:
        return ""
    peers = [name for name in ("tenxor", *PEERS) if any(name in row for row in found.values())]
    rows = [["4×5 float64", *[result["titles"][name] for name in peers]]]
    rows += [[f"`{line}`", *[shown(row[p]) if p in row else "–" for p in peers]] for line, row in found.items()]
    return "## Small operations\n\n" + grid(rows)


def _by_size(results: Results) -> str:
    """What NumPy is known for, at several sizes, on one thread."""
    rows = next(iter(results["threads"].values())).get("by size")
    if not rows:
        return ""
    return (
        "## By size\n\nHow many times as fast as NumPy Tenxor is, and how long it takes, on one thread: elements of vectors, rows and"
        " columns of matrices and images, batches before them. Each line is a function of both (`benchmarks/sized`).\n\n"
        + grid(sized_table(rows))
    )


def _starting(results: Results) -> str:
    found = results.get("starting")
    if not found:
        return ""
    titles = next(iter(results["threads"].values()))["titles"]
    columns = list(next(iter(found.values())))
    rows = [["a fresh process", *columns]]
    rows += [[titles[name], *[shown(row[column]) for column in columns]] for name, row in found.items()]
    return (
        "## Starting\n\nThe first call is `(exp(x)*2 + 1).sum()` of 1000 elements. Cold: nothing kept on disk by an earlier process;"
        " JAX keeps compiled code only if told to, and for the warm disk it was. The process is the whole of it with a warm disk.\n\n"
        + grid(rows)
    )


def _first(results: Results) -> str:
    """Imports and first results, of Tenxor beside NumPy."""
    found = results.get("first results")
    if not found:
        return ""
    rows = [["a fresh process", "NumPy", "Tenxor", "nothing on disk", "of a wheel", "Tenxor / NumPy"]]
    for name, row in found.items():
        each = [row.get(who) for who in ("numpy", "tenxor", "tenxor, cold", "tenxor, wheel")]
        ratio = f"{row['tenxor'] / row['numpy']:.2f}" if name == "import" else "–"
        rows.append([name, *["–" if figure is None else shown(figure) for figure in each], ratio])
    return (
        "## First results\n\nThe import, and the first result after it, each in a process of its own; medians of processes that take"
        " turns. Of a wheel: nothing on disk, but what is installed with one.\n\n" + grid(rows)
    )


def families_table(results: Results, only: tuple[str, ...] = ()) -> str:
    """Return a paragraph and a table with a row for each family of workloads, as geometric means.

    `only` names the rows that are wanted; without it, all rows are given.
    """
    counts = results["threads"]
    many = list(counts)[-1]
    result = counts[many]
    peers = [name for name in PEERS if name in result["versions"]]
    header = ["", *[f"× {result['titles'][p]}" for p in peers], "× best peer", "of the limit"]
    if len(counts) > 1:
        header += ["× best peer, 1 thread", "of the limit, 1 thread"]
    rows: dict[str, list[str]] = {}
    for family in dict.fromkeys(row["family"] for row in result["workloads"].values()):
        cells = [f"{family} ({sum(r['family'] == family for r in result['workloads'].values())})"]
        for n in dict.fromkeys((many, next(iter(counts)))):
            own = [row for row in counts[n]["workloads"].values() if row["family"] == family]
            if n == many:
                cells += [times(geometric_mean(ratio(row, peer) for row in own)) for peer in peers]
            limit = geometric_mean(of_limit(row) for row in own)
            cells += [times(geometric_mean(map(to_best, own))), f"{100 * (limit or 0):.0f} %"]
        rows[family] = cells
    blank = [""] * (len(header) - 1 - len(peers))
    shapes, starting = result.get("new shapes"), results.get("starting")
    if shapes:
        ours = shapes["seconds"]["tenxor"]
        theirs = {p: s / ours for p, s in shapes["seconds"].items() if p != "tenxor"}
        title = "100 new shapes of one expression"
        rows[title] = [title, *[times(theirs.get(p)) for p in peers], *blank]
    if starting:
        for title in ("import", "first call, cold", "first call, warm disk"):
            ours = starting["tenxor"][title]
            theirs = {p: row[title] / ours for p, row in starting.items() if p != "tenxor"}
            rows[title] = [f"{title}: {shown(ours)}", *[times(theirs.get(p)) for p in peers], *blank]
    wanted = [cells for title, cells in rows.items() if title in only or not only]
    quick = " A quick run." if results["quick"] else ""
    return (
        f"Times as fast as each peer on {threads(many)} of {result_machine(results)}: geometric means over the workloads of a"
        f" family (their number). “Of the limit” is the share of the machine's own bandwidth or FMA peak.{quick}\n\n"
        + grid([header, *wanted])
    )


def result_machine(results: Results) -> str:
    """The processor, in words."""
    return f"{results['machine']['processor']} ({results['machine']['cpus']} CPUs)"


def with_table(text: str, table: str) -> str:
    """Return a document with `table` between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
