"use strict";

/** The weights of one step: a row per column that reads (target), sources in the same places as above. */
function drawMap(panel, view, colours) {
  const { trace } = panel;
  const layout = new Layout(trace, view.room);
  const row = Math.min(view.row, trace.steps);
  const tall = Math.min(20, layout.cell);
  const height = trace.size * tall + 26;
  const parts = [label("reads from →", { x: layout.left, y: 9, "text-anchor": "start", "font-size": 11, fill: colours.soft })];
  const y = (target) => 20 + target * tall;
  parts.push(tag("rect", { x: layout.left, y: y(0), width: layout.cell * trace.size, height: tall * trace.size, fill: shade(colours, 0).fill, stroke: colours.line }));
  if (row > 0) {
    const weights = trace.map(row - 1, view.head);
    weights.forEach((weight, at) => {
      if (weight < 0.015) return;
      const target = Math.floor(at / trace.size), source = at % trace.size;
      parts.push(tag("rect", { x: layout.x(source) - layout.cell / 2, y: y(target), width: layout.cell, height: tall, fill: shade(colours, weight).fill }));
    });
  }
  trace.columns.forEach((word, target) => {
    const chosen = target === view.column;
    parts.push(label(word, { x: layout.left - 8, y: y(target) + tall / 2, "text-anchor": "end", "font-size": Math.min(11, tall - 2), "font-weight": chosen ? 700 : 400, fill: chosen ? colours.read : colours.ink }));
    if (chosen) parts.push(tag("rect", { x: layout.left, y: y(target), width: layout.cell * trace.size, height: tall, fill: "none", stroke: colours.read, "stroke-width": 1.8 }));
  });
  const describe = `Heat map of where the ${trace.size} columns read at the chosen step`;
  return { picture: svg(layout.width, height, describe, parts.join("")), layout, y, tall, height };
}
