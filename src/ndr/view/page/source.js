"use strict";
// Where the page's data comes from: its server, or the file itself.

class Problem extends Error {
  constructor(reason, position, field = "text") {
    super(reason);
    this.position = position;
    this.field = field;
  }
}

class ServerSource {
  async models() {
    return (await this.ask("/api/models")).models;
  }

  parse(model, text, signal) {
    return this.ask("/api/parse", { model, text }, signal);
  }

  trace(model, text, steps, signal) {
    return this.ask("/api/trace", { model, text, steps }, signal);
  }

  async ask(path, body, signal) {
    const options = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    let answer;
    try {
      answer = await fetch(path, { ...options, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Problem("the server does not answer; is ndr explore still running?", null);
    }
    const said = await answer.json();
    if (!answer.ok) throw new Problem(said.reason, said.position);
    return said;
  }
}

/** The texts of an exported file; fewer steps than recorded are the beginning of the recording. */
class RecordedSource {
  constructor(data) {
    this.data = data;
  }

  async models() {
    return this.data.models;
  }

  find(model, text) {
    const found = this.data.records.find((record) => record.model === model && record.text === text);
    if (!found) throw new Problem("this file holds only its examples; ndr explore shows any text", null);
    if (found.problem) throw new Problem(found.problem, null);
    return found;
  }

  async parse(model, text) {
    return this.find(model, text).parsed;
  }

  async trace(model, text, steps) {
    const packed = this.find(model, text).trace;
    if (steps === null || steps === packed.steps) return packed;
    if (steps > packed.steps) throw new Problem(`this file holds ${packed.steps} steps`, null, "steps");
    const readouts = fractionsOf(packed.readouts);
    const start = (steps * packed.columns.length + packed.readout) * packed.answers.length;
    const said = Array.from(readouts.subarray(start, start + packed.answers.length));
    return { ...packed, steps, answer: packed.answers[said.indexOf(Math.max(...said))] };
  }
}

function openSource() {
  const recorded = document.getElementById("recorded");
  return recorded ? new RecordedSource(JSON.parse(recorded.textContent)) : new ServerSource();
}
