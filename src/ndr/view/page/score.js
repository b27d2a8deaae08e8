"use strict";
// Tree, tokens and steps of one network, like the staves of a score: every column is one vertical line through all.

const LEVEL = 25;
const ROW = 20;
const GAP = 3;
const READS = 86;

function drawScore(panel, view, colours) {
  const { trace, truth } = panel;
  const layout = new Layout(trace, view.room);
  const row = Math.min(view.row, trace.steps);
  const treeHeight = truth.tree ? (truth.tree[0].height + 1) * LEVEL : 4;
  const tokenHeight = layout.upright ? layout.longest * 7.6 + 10 : 24;
  const top = treeHeight + tokenHeight + 4;
  const open = view.reads === "map" ? 0 : READS;
  // The rows stand close together; only above the row of the chosen step is there room, for its arrows.
  const y = (at) => top + at * (ROW + GAP) + (at >= Math.max(1, row) ? open : 0);
  const height = y(trace.steps) + ROW + 8;

  const parts = [];
  if (view.column !== null && view.column < trace.size) {
    parts.push(tag("rect", { x: layout.x(view.column) - layout.cell / 2, y: 0, width: layout.cell, height, fill: colours.band }));
  }
  if (truth.tree) parts.push(drawTree(panel, layout, row, colours));
  parts.push(drawTokens(trace, layout, treeHeight, tokenHeight, colours));
  for (let at = 0; at <= trace.steps; at++) parts.push(drawRow(panel, view, layout, at, y(at), at === row, colours));
  if (open && row > 0) parts.push(drawArrows(trace, view, layout, row - 1, y(row - 1) + ROW + 1, y(row) - 2, colours));
  if (open && row === 0) parts.push(label("press Play: here the columns read", { x: layout.left + 8, y: y(1) - open / 2 - 4, "text-anchor": "start", "font-size": 11.5, fill: colours.soft, opacity: 0.8 }));
  const describe = `Tree, ${trace.size} columns and ${trace.steps} steps of ${panel.model.name}; the chosen step is described in the text`;
  return { picture: svg(layout.width, height, describe, parts.join("")), layout, y, height };
}

/** The parse: an operation stands above its operator, as high as its subtree is deep. */
function drawTree(panel, layout, row, colours) {
  const { trace, truth } = panel;
  const root = truth.tree[0];
  const y = (node) => (root.height - node.height + 0.5) * LEVEL;
  const lines = [], marks = [];
  for (const node of truth.tree) {
    const x = layout.x(node.column);
    const faint = node.needed ? 1 : 0.45;
    if (node.parent !== null) {
      const parent = truth.tree[node.parent];
      lines.push(tag("path", {
        // Across, then down: ranges of operations nest, so these lines never cross.
        d: `M${layout.x(parent.column)},${y(parent)} H${x} V${node.children.length ? y(node) : y(node) + 9}`,
        stroke: colours.soft, "stroke-width": 1.2, "stroke-linejoin": "round", opacity: faint * 0.75, fill: "none", "stroke-dasharray": node.needed ? null : "3 3",
      }));
    }
    if (!node.children.length) continue;
    const known = truth.knows(trace, row, node.column);
    const half = Math.max(10, 4.2 * node.value.length + 5);
    lines.push(tag("path", { d: `M${x},${y(node) + 9} V${root.height * LEVEL + LEVEL}`, stroke: colours.line, "stroke-width": 1, "stroke-dasharray": "1 3" }));
    marks.push(tag("g", { opacity: faint },
      tag("rect", { x: x - half, y: y(node) - 9.5, width: 2 * half, height: 19, rx: 9.5, fill: known ? colours.known : colours.card, stroke: known ? colours.known : colours.soft, "stroke-width": 1.3 })
      + label(node.value, { x, y: y(node) + 0.5, "font-size": 12, "font-weight": 600, fill: known ? colours.card : colours.ink })));
  }
  return lines.join("") + marks.join("");
}

function drawTokens(trace, layout, above, height, colours) {
  const words = trace.columns.map((word, column) => {
    const x = layout.x(column);
    const place = layout.upright
      ? { x, y: above + height - 5, transform: `rotate(-90 ${Math.round(x * 100) / 100} ${above + height - 5})`, "text-anchor": "start" }
      : { x, y: above + height / 2 };
    return label(word, { ...place, "font-size": 12.5, "font-weight": 600, fill: column === trace.readout ? colours.accent : colours.ink });
  });
  return words.join("");
}

function drawRow(panel, view, layout, at, y, chosen, colours) {
  const { trace, truth } = panel;
  const cells = [];
  const size = Math.min(12, (layout.cell - 3) / (0.62 * Math.max(...trace.answers.map((word) => word.length))));
  for (let column = 0; column < trace.size; column++) {
    const value = trace.cell(view.cells, at, column);
    const look = value === null ? { fill: colours.card, ink: colours.soft } : shade(colours, value);
    const x = layout.x(column);
    const said = trace.says(at, column);
    const known = truth.knows(trace, at, column);
    const inset = known ? 2 : 1;
    cells.push(tag("rect", {
      x: x - layout.cell / 2 + inset, y: y + inset - 1, width: layout.cell - 2 * inset, height: ROW - 2 * (inset - 1), rx: 3,
      fill: look.fill, stroke: known ? colours.known : colours.line, "stroke-width": known ? 2.4 : 0.6,
    }));
    // A readout that is hardly better than a guess is written faintly.
    cells.push(label(said.answer, { x, y: y + ROW / 2 + 0.5, "font-size": size, "font-weight": known ? 700 : 400, fill: look.ink, opacity: known ? 1 : 0.35 + 0.55 * said.chance }));
    if (at > 0 && trace.opening(column) === at - 1) {
      cells.push(tag("rect", { x: x - layout.cell / 2 + 2, y: y - 1.5, width: layout.cell - 4, height: 3.5, rx: 1.5, fill: colours.read }));
    }
    if (truth.since(trace, column) === at) {
      const cx = x + layout.cell / 2 - 4, cy = y + 1;
      cells.push(tag("circle", { cx, cy, r: 5.5, fill: colours.known, stroke: colours.card, "stroke-width": 1 })
        + tag("path", { d: `M${cx - 2.6},${cy + 0.2} l1.9,2 l3.4,-4`, stroke: colours.card, "stroke-width": 1.6, fill: "none" }));
    }
  }
  const name = at === 0 ? "start" : `t=${at - 1}`;
  cells.push(label(name, { x: layout.left - 8, y: y + ROW / 2, "text-anchor": "end", "font-size": 11, "font-weight": chosen ? 700 : 400, fill: chosen ? colours.read : colours.soft }));
  if (chosen) {
    cells.push(tag("rect", { x: layout.left - 3, y: y - 2.5, width: layout.cell * trace.size + 6, height: ROW + 5, rx: 5, fill: "none", stroke: colours.read, "stroke-width": 1.8 }));
  }
  return cells.join("");
}

/** From the sources in the row above into the targets in the row below. */
function drawArrows(trace, view, layout, step, from, to, colours) {
  const weights = trace.map(step, view.head);
  const arrows = [];
  for (let target = 0; target < trace.size; target++) {
    if (view.column !== null && view.column !== target) continue;
    const opening = trace.opening(target);
    const taken = trace.gate === null || (opening !== null && step >= opening);
    for (let source = 0; source < trace.size; source++) {
      const weight = weights[target * trace.size + source];
      if (weight >= 0.1) arrows.push({ target, source, weight, taken });
    }
  }
  arrows.sort((one, two) => one.taken - two.taken || one.weight - two.weight);
  return arrows.map(({ target, source, weight, taken }) => {
    const x1 = layout.x(source), x2 = layout.x(target), bend = (to - from) * 0.55;
    const colour = taken ? colours.read : colours.soft;
    const opacity = taken ? 0.25 + 0.75 * weight : 0.12 + 0.3 * weight;
    return tag("path", { d: `M${x1},${from} C${x1},${from + bend} ${x2},${to - 7 - bend} ${x2},${to - 6}`, fill: "none", stroke: colour, "stroke-width": 0.6 + 2 * weight, opacity, "stroke-dasharray": taken ? null : "4 3" })
      + tag("path", { d: `M${x2 - 3.6},${to - 7} L${x2 + 3.6},${to - 7} L${x2},${to} Z`, fill: colour, opacity });
  }).join("");
}
