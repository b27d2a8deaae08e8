"use strict";

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Little-endian 16-bit numbers as fractions of 65535. */
function fractionsOf(base64) {
  if (base64 === null) return null;
  const view = new DataView(bytesOf(base64).buffer);
  return Float32Array.from({ length: view.byteLength / 2 }, (_, at) => view.getUint16(2 * at, true) / 65535);
}

/** What the network did, as the server packed it (see PackedTrace in openapi.json). */
class Trace {
  constructor(packed) {
    for (const name of ["text", "columns", "answers", "answer", "readout", "steps", "heads"]) this[name] = packed[name];
    this.size = packed.columns.length;
    this.weights = bytesOf(packed.attention);
    this.gate = fractionsOf(packed.openness);
    this.changes = fractionsOf(packed.change);
    this.halts = fractionsOf(packed.halting);
    this.chances = fractionsOf(packed.readouts);
    this.maps = new Map();
  }

  /** Weights of one step [target × source] as fractions: of one head, or the largest of all heads. */
  map(step, head) {
    const key = `${step}/${head}`;
    if (this.maps.has(key)) return this.maps.get(key);
    const area = this.size * this.size;
    const found = new Float32Array(area);
    for (let one = 0; one < this.heads; one++) {
      if (head !== null && one !== head) continue;
      const start = (step * this.heads + one) * area;
      for (let at = 0; at < area; at++) found[at] = Math.max(found[at], this.weights[start + at] / 255);
    }
    this.maps.set(key, found);
    return found;
  }

  /** How far the gate of a column was open; without gates every update is taken in whole. */
  openness(step, column) {
    return this.gate === null ? 1 : this.gate[step * this.size + column];
  }

  /** The first step at which a gate is half as open as it ever gets; null for one that stays closed. */
  opening(column) {
    if (this.gate === null) return null;
    let most = 0;
    for (let step = 0; step < this.steps; step++) most = Math.max(most, this.openness(step, column));
    if (most < 0.1) return null;
    let step = 0;
    while (this.openness(step, column) < most / 2) step++;
    return step;
  }

  /** What the output layer says of a column; row 0 is the start, row t + 1 the state after step t. */
  says(row, column) {
    const count = this.answers.length;
    const start = (row * this.size + column) * count;
    let best = 0;
    for (let one = 1; one < count; one++) if (this.chances[start + one] > this.chances[start + best]) best = one;
    return { answer: this.answers[best], chance: this.chances[start + best] };
  }

  /** The number that a cell's shade stands for; null where there is none. */
  cell(what, row, column) {
    if (what === "certainty") return this.says(row, column).chance;
    if (row === 0) return null;
    const at = (row - 1) * this.size + column;
    if (what === "halting") return this.halts === null ? null : this.halts[at];
    return what === "gate" && this.gate !== null ? this.gate[at] : this.changes[at];
  }

  /** The sources of a target at a step, strongest first. */
  readsOf(step, head, target) {
    const row = this.map(step, head).subarray(target * this.size, (target + 1) * this.size);
    return Array.from(row, (weight, source) => ({ source, weight })).filter((read) => read.weight >= 0.02)
      .sort((one, two) => two.weight - one.weight);
  }
}

/** The tree, asked by column: which operation stands there, and what is true of it. */
class Truth {
  constructor(parsed, readout) {
    this.tree = parsed.tree;
    this.value = parsed.value;
    this.byColumn = new Map();
    for (const node of parsed.tree ?? []) this.byColumn.set(node.column, node);
    this.readout = readout;
  }

  /** What a column should come to say: operations their result, the readout the answer. */
  expected(column) {
    if (column === this.readout) return this.value;
    const node = this.byColumn.get(column);
    return node && node.children.length ? node.value : null;
  }

  knows(trace, row, column) {
    const expected = this.expected(column);
    if (expected === null) return false;
    const said = trace.says(row, column);
    return said.answer === expected && said.chance >= 0.5;
  }

  /** The first row from which a column stays right to the end, or null. */
  since(trace, column) {
    let row = trace.steps + 1;
    while (row > 0 && this.knows(trace, row - 1, column)) row--;
    return row > trace.steps ? null : row;
  }
}
