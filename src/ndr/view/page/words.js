"use strict";
// The same in words, for whoever listens instead of looking.

function percent(value) {
  return `${Math.round(100 * value)} %`;
}

function columnName(trace, column) {
  return `${trace.columns[column]} (column ${column})`;
}

function list(words, most) {
  const shown = words.slice(0, most).join(", ");
  return words.length > most ? `${shown} and ${words.length - most} more` : shown;
}

function stepName(row, steps) {
  return row === 0 ? "start" : `t = ${row - 1} (${row} of ${steps})`;
}

/** What happens at the chosen step, in one or two sentences. */
function sentence(panel, row) {
  const { trace, truth } = panel;
  const at = Math.min(row, trace.steps);
  const now = trace.says(at, trace.readout);
  const ending = `If it stopped here, ${panel.model.name} would say ${now.answer} (${percent(now.chance)})`;
  const judged = truth.value === null ? "." : now.answer === truth.value ? ", which is right." : `; right is ${truth.value}.`;
  if (at === 0) return `Start: no step has been made. ${ending}${judged}`;
  const columns = [...Array(trace.size).keys()];
  const fresh = columns.filter((column) => truth.since(trace, column) === at).map((column) => `${trace.columns[column]} = ${truth.expected(column)}`);
  const open = columns.filter((column) => trace.opening(column) === at - 1).map((column) => columnName(trace, column));
  const gates = trace.gate === null ? "" : open.length ? ` Gates that open: ${list(open, 6)}.` : " No further gate opens.";
  const known = fresh.length ? ` Known from here on: ${list(fresh, 6)}.` : "";
  return `Step ${stepName(at, trace.steps)}.${gates}${known} ${ending}${judged}`;
}

/** Everything about one column at one step. */
function columnDetail(panel, view) {
  const { trace, truth } = panel;
  const row = Math.min(view.row, trace.steps), column = view.column;
  if (column === null || column >= trace.size) return "Choose a column (click it, or press , and .) to read its numbers.";
  const said = trace.says(row, column);
  const expected = truth.expected(column);
  const parts = [`<b>${escaped(columnName(trace, column))}</b> at ${row === 0 ? "the start" : `t = ${row - 1}`}: says ${escaped(said.answer)} (${percent(said.chance)})`];
  if (expected !== null) parts.push(`true value ${escaped(expected)}`);
  if (row > 0) {
    if (trace.gate !== null) parts.push(`gate ${percent(trace.openness(row - 1, column))} open`);
    parts.push(`state changed ${percent(trace.cell("change", row, column))}`);
    if (trace.halts !== null) parts.push(`halting weight ${percent(trace.cell("halting", row, column))}`);
    const reads = trace.readsOf(row - 1, view.head, column).slice(0, 4).map((read) => `${escaped(columnName(trace, read.source))} ${percent(read.weight)}`);
    parts.push(reads.length ? `reads ${reads.join(", ")}` : "reads nothing");
  }
  return `${parts.join(" · ")}.`;
}

function numbersTable(panel, view) {
  const { trace, truth } = panel;
  const row = Math.min(view.row, trace.steps);
  const head = ["column", "token", "true value", "says", ...(row && trace.gate ? ["gate"] : []), ...(row ? ["change", "reads most"] : [])];
  const rows = trace.columns.map((word, column) => {
    const said = trace.says(row, column);
    const read = row ? trace.readsOf(row - 1, view.head, column)[0] : null;
    const cells = [column, word, truth.expected(column) ?? "", `${said.answer} (${percent(said.chance)})`];
    if (row && trace.gate) cells.push(percent(trace.openness(row - 1, column)));
    if (row) cells.push(percent(trace.cell("change", row, column)), read ? `${columnName(trace, read.source)} ${percent(read.weight)}` : "nothing");
    return tag("tr", {}, cells.map((cell, at) => tag("td", { class: at === 3 && truth.knows(trace, row, column) ? "known" : null }, escaped(cell))).join(""));
  });
  return `<table><thead><tr>${head.map((name) => tag("th", { scope: "col" }, escaped(name))).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
}
