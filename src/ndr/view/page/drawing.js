"use strict";
// Drawing is text: pictures are put together as SVG with plain attributes, shown and saved alike.

function escaped(text) {
  return String(text).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

function tag(name, attributes, inside = "") {
  const words = Object.entries(attributes).filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? Math.round(value * 100) / 100 : escaped(value)}"`);
  return `<${name}${words.join("")}>${inside}</${name}>`;
}

const FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

function label(text, attributes) {
  const merged = { "font-family": FONT, "text-anchor": "middle", "dominant-baseline": "central", ...attributes };
  return tag("text", merged, escaped(text));
}

/** Where columns stand: all parts of a panel share it, so that one column is one vertical line through them. */
class Layout {
  constructor(trace, room) {
    const longestAnswer = Math.max(...trace.answers.map((word) => word.length));
    this.longest = Math.max(...trace.columns.map((word) => word.length));
    this.left = 52;
    const least = Math.max(12, 7 * longestAnswer + 5);
    this.cell = Math.max(least, Math.min(96, (room - this.left - 10) / trace.size));
    this.width = this.left + this.cell * trace.size + 10;
    this.upright = this.longest * 7.6 + 4 > this.cell;
  }

  x(column) {
    return this.left + this.cell * (column + 0.5);
  }
}

function svg(width, height, describe, inside) {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${Math.ceil(height)}" `
    + `viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}" role="img" aria-label="${escaped(describe)}">${inside}</svg>`;
}
