"""A filled table as text: terminal, Markdown, LaTeX, HTML. Each cell shows our number and the paper's."""

from collections.abc import Callable
from html import escape
from itertools import groupby
from typing import Literal, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ndr.paper.tables import Cell, Filled

Format = Literal["terminal", "markdown", "latex", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)


def render(filled: Filled, format: Format = "terminal", width: int | None = None) -> str:
    return {"terminal": lambda each: terminal(each, width), **WRITERS}[format](filled)


def groups(filled: Filled) -> list[tuple[str, int]]:
    """Headings over several columns, and over how many."""
    return [(name, len(list(each))) for name, each in groupby(filled.table.columns, key=lambda column: column.group)]


def headings(filled: Filled) -> list[str]:
    """One line of headings, for formats without cells over several columns."""
    lead = [filled.table.models] + ([filled.table.labels] if filled.table.labels else [])
    columns = [f"{each.group} {each.heading(filled.scale)}".strip() for each in filled.table.columns]
    return lead + columns


def caption(filled: Filled) -> str:
    return f"{filled.table.heading} (scale {filled.scale}; below ours, the paper's)"


def terminal(filled: Filled, width: int | None = None) -> str:
    table = Table()
    for place, heading in enumerate(headings(filled)):
        table.add_column(heading, justify="left" if place == 0 else "right")
    for place, row in enumerate(filled.rows):
        if row.rule and place:
            table.add_section()
        lead = [row.name] + ([row.label] if filled.table.labels else [])
        table.add_row(*lead, *(two_lines(cell) for cell in row.cells))
    console = Console(width=width)
    with console.capture() as capture:
        console.print(caption(filled), style="bold", highlight=False, soft_wrap=True)
        console.print(table)
        for note in filled.notes:
            console.print(f"note: {note}", style="dim", highlight=False, markup=False)
    return capture.get()


def two_lines(cell: Cell) -> Text:
    style = "bold" if cell.bold else "red" if cell.agrees is False else ""
    return Text.assemble((cell.ours, style), "\n", (cell.theirs, "dim"))


def markdown(filled: Filled) -> str:
    lines = [f"**{filled.table.heading}** (scale `{filled.scale}`; ours, then *the paper's*)", ""]
    head = headings(filled)
    lines.append("| " + " | ".join(head) + " |")
    lines.append("|---" + "|---:" * (len(head) - 1) + "|")
    for row in filled.rows:
        lead = [row.name] + ([row.label] if filled.table.labels else [])
        cells = [f"{f'**{cell.ours}**' if cell.bold else cell.ours}<br>*{cell.theirs}*" for cell in row.cells]
        lines.append("| " + " | ".join([*lead, *cells]) + " |")
    lines += [""] + [f"- {note}" for note in filled.notes]
    return "\n".join(lines).rstrip() + "\n"


def latex(filled: Filled) -> str:
    """For a paper with booktabs; our number stands over the paper's."""
    lead = 2 if filled.table.labels else 1
    lines = [
        r"\begin{table}[ht]",
        r"\centering\small",
        rf"\caption{{{tex(filled.table.title)} (scale {tex(filled.scale)}). Ours; in small print the paper's.}}",
        rf"\begin{{tabular}}{{l{'c' * (lead - 1 + len(filled.table.columns))}}}",
        r"\toprule",
        "& " * (lead - 1)
        + "".join(rf"& \multicolumn{{{span}}}{{c}}{{{tex(name)}}} " for name, span in groups(filled))
        + r"\\",
    ]
    start = lead + 1
    for _, span in groups(filled):
        lines.append(rf"\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    names = [filled.table.models, *([filled.table.labels] if filled.table.labels else [])]
    names += [column.heading(filled.scale) for column in filled.table.columns]
    lines += [" & ".join(map(tex, names)) + r" \\", r"\midrule"]
    for place, row in enumerate(filled.rows):
        if row.rule and place:
            lines.append(r"\midrule")
        cells = [tex(row.name), *([tex(row.label)] if filled.table.labels else [])]
        cells += [rf"\shortstack{{{strong(cell)}\\{{\scriptsize {tex(cell.theirs)}}}}}" for cell in row.cells]
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    lines += [f"% {note}" for note in filled.notes]
    return "\n".join(lines) + "\n"


def strong(cell: Cell) -> str:
    return rf"\textbf{{{tex(cell.ours)}}}" if cell.bold else tex(cell.ours)


def tex(text: str) -> str:
    special = {"±": r"$\pm$", "→": r"$\to$", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$"}
    return "".join(special.get(character, character) for character in text)


def html(filled: Filled) -> str:
    lead = 2 if filled.table.labels else 1
    lines = [
        '<table class="paper">',
        f"<caption>{escape(filled.table.heading)} (scale {escape(filled.scale)}; ours, in small print the paper's)"
        "</caption>",
        "<thead>",
        f'<tr><th colspan="{lead}"></th>'
        + "".join(f'<th colspan="{span}">{escape(name)}</th>' for name, span in groups(filled))
        + "</tr>",
        "<tr>"
        + "".join(f"<th>{escape(name)}</th>" for name in [filled.table.models, filled.table.labels] if name)
        + "".join(f"<th>{escape(column.heading(filled.scale))}</th>" for column in filled.table.columns)
        + "</tr>",
        "</thead>",
        "<tbody>",
    ]
    for row in filled.rows:
        names = [row.name, row.label][:lead]
        cells = [
            f"<td>{f'<b>{escape(cell.ours)}</b>' if cell.bold else escape(cell.ours)}"
            f"<br><small>{escape(cell.theirs)}</small></td>"
            for cell in row.cells
        ]
        lines.append("<tr>" + "".join(f"<th>{escape(name)}</th>" for name in names) + "".join(cells) + "</tr>")
    lines += ["</tbody>", "</table>"]
    lines += [f"<p>{escape(note)}</p>" for note in filled.notes]
    return "\n".join(lines) + "\n"


WRITERS: dict[str, Callable[[Filled], str]] = {"markdown": markdown, "latex": latex, "html": html}
