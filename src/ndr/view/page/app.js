"use strict";
// One record says what is shown; every event changes it and draws again.

const MOST_STEPS = 200;
const $ = (id) => document.getElementById(id);
const source = openSource();
const view = {
  text: "", model: 0, other: null, steps: null, row: 0, head: null, reads: "arrows", cells: "gate", column: null, room: 600,
};
let models = [];
let panels = [];
let playing = null;
let asking = null;
let wrong = null;

async function start() {
  chooseTheme();
  $("said").textContent = "Opening the networks …";
  try {
    models = await source.models();
  } catch (problem) {
    $("said").textContent = "";
    return showProblem(problem);
  }
  view.text = models[0].examples[0] ?? "";
  readLink(location.hash, view, names(), MOST_STEPS);
  fillControls();
  listen();
  await ask();
}

function names() {
  return models.map((model) => model.name);
}

/* Controls ------------------------------------------------------------------------------------------------------ */

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, text]) => new Option(text, value, false, String(value) === String(chosen))));
}

function fillControls() {
  $("text").value = view.text;
  $("text").readOnly = source instanceof RecordedSource;
  options($("model"), models.map((model, place) => [place, model.name]), view.model);
  options($("other"), [["", "nothing"], ...models.map((model, place) => [place, model.name])], view.other ?? "");
  $("other").disabled = models.length < 2;
  $("reads").value = view.reads;
  $("cells").value = view.cells;
  $("steps").value = view.steps ?? "";
  fillExamples();
  fillHeads();
}

function fillExamples() {
  const examples = models[view.model].examples;
  const place = examples.indexOf(view.text);
  options($("examples"), [["", "pick an example"], ...examples.map((text, at) => [at, text])], place < 0 ? "" : place);
}

function fillHeads() {
  const shown = [view.model, view.other].filter((place) => place !== null).map((place) => models[place].heads);
  const count = Math.max(...shown);
  if (view.head !== null && view.head >= count) view.head = null;
  options($("head"), [["", count > 1 ? `all ${count} (max)` : "all (1)"], ...Array.from({ length: count }, (_, at) => [at, at])], view.head ?? "");
  const halting = [view.model, view.other].some((place) => place !== null && models[place].halting);
  $("cells").querySelector("[value=halting]").disabled = !halting;
  if (view.cells === "halting" && !halting) view.cells = $("cells").value = "gate";
  $("steps").placeholder = models[view.model].steps;
  $("steps").max = MOST_STEPS;
}

/* Asking -------------------------------------------------------------------------------------------------------- */

/** Ask for the tree and the traces of what the view names; an answer that is no longer wanted is dropped. */
async function ask() {
  asking?.abort();
  const mine = asking = new AbortController();
  const wanted = [view.model, view.other].filter((place) => place !== null);
  try {
    const found = await Promise.all(wanted.map((place) => askFor(place, mine.signal)));
    if (mine !== asking) return;
    panels = found;
    showProblem(null);
    draw();
  } catch (problem) {
    if (problem.name === "AbortError" || mine !== asking) return;
    if (!(problem instanceof Problem)) throw problem;
    showProblem(problem);
  }
}

async function askFor(place, signal) {
  const model = models[place];
  try {
    const [parsed, packed] = await Promise.all([
      source.parse(place, view.text, signal), source.trace(place, view.text, view.steps, signal),
    ]);
    const trace = new Trace(packed);
    return { model, packed, parsed, trace, truth: new Truth(parsed, trace.readout), problem: null };
  } catch (problem) {
    if (problem.name === "AbortError" || place === view.model) throw problem;
    return { model, problem };
  }
}

function showProblem(problem) {
  wrong = problem;
  $("problem").hidden = problem === null;
  for (const field of ["text", "steps"]) $(field).setAttribute("aria-invalid", problem?.field === field);
  for (const panel of document.querySelectorAll(".panel")) panel.classList.toggle("stale", problem !== null);
  if (problem === null) return;
  pause();
  $("truth").textContent = "";
  const at = problem.position;
  const known = at !== null && at !== undefined;
  $("reason").textContent = known ? `${problem.message}, at character ${at + 1}` : problem.message;
  $("where").hidden = !known;
  if (known) {
    const from = Math.max(0, at - 30);
    $("where").textContent = `${view.text.slice(from, at + 30) || " "}\n${" ".repeat(at - from)}▲`;
  }
}

/* Drawing ------------------------------------------------------------------------------------------------------- */

function lastRow() {
  return Math.max(1, ...panels.filter((panel) => panel.trace).map((panel) => panel.trace.steps));
}

function draw() {
  const first = panels.find((panel) => panel.trace);
  if (!first) return;
  view.row = Math.min(view.row, lastRow());
  const columns = first.trace.size;
  if (view.column !== null && view.column >= columns) view.column = null;
  const { value, tree } = first.parsed;
  // What stands below a problem belongs to the last text that was right; it is not said of the new one.
  $("truth").textContent = wrong ? "" : value === null ? `${columns - 2} tokens`
    : `${columns - 2} tokens${tree ? `, tree ${tree[0].height} high` : ""}; the true answer is ${value}`;
  // Its own number may grow with the text, so it is known only now.
  if (view.steps === null) $("steps").placeholder = first.trace.steps;
  $("step").max = lastRow();
  $("step").value = view.row;
  const name = stepName(view.row, lastRow());
  $("step-name").textContent = name;
  $("step").setAttribute("aria-valuetext", name);
  $("said").textContent = sentence(first, view.row);
  drawPanels();
  history.replaceState(null, "", writeLink(view, names()));
}

function drawPanels() {
  const place = $("panels");
  while (place.children.length > panels.length) place.lastChild.remove();
  while (place.children.length < panels.length) place.append(newPanel());
  const colours = palette();
  panels.forEach((panel, at) => drawPanel(place.children[at], panel, colours));
}

function newPanel() {
  const element = document.createElement("section");
  element.className = "card panel";
  element.innerHTML = `<header><h2></h2><span class="answer"></span></header><div class="about"></div>
    <div class="scroll score" tabindex="0" role="group" aria-label="Tree and steps"></div>
    <div class="scroll map" tabindex="0" role="group" aria-label="Heat map of reads"></div>
    <div class="legend"></div><p class="detail"></p>
    <details><summary>Numbers of this step as a table</summary><div class="table"></div></details>`;
  element.querySelector(".score").addEventListener("click", (event) => choose(element, event, "score"));
  element.querySelector(".map").addEventListener("click", (event) => choose(element, event, "map"));
  element.querySelector("details").addEventListener("toggle", draw);
  return element;
}

function drawPanel(element, panel, colours) {
  const part = (name) => element.querySelector(name);
  part("h2").textContent = panel.model.name;
  element.setAttribute("aria-label", panel.model.name);
  const { attention, gated, heads, halting } = panel.model;
  part(".about").textContent = `${attention} attention, ${heads} ${heads === 1 ? "head" : "heads"}, ${gated ? "copy gate" : "no gate"}${halting ? ", ACT" : ""}`;
  for (const name of [".score", ".map", ".legend", "details"]) part(name).hidden = Boolean(panel.problem);
  if (panel.problem) {
    part(".answer").textContent = "";
    part(".detail").textContent = `This network cannot read the text: ${panel.problem.message}.`;
    return;
  }
  const { trace, truth } = panel;
  const right = truth.value === null ? "" : trace.answer === truth.value ? "right" : "wrong";
  part(".answer").textContent = `says ${trace.answer} ${right === "right" ? "✓" : right === "wrong" ? `✗ (${truth.value})` : ""}`;
  part(".answer").className = `answer ${right}`;
  const mine = { ...view, room: part(".score").clientWidth || 600, head: view.head !== null && view.head < trace.heads ? view.head : null };
  panel.view = mine;
  panel.score = drawScore(panel, mine, colours);
  part(".score").innerHTML = panel.score.picture;
  part(".map").hidden = view.reads === "arrows";
  panel.map = view.reads === "arrows" ? null : drawMap(panel, mine, colours);
  if (panel.map) part(".map").innerHTML = panel.map.picture;
  part(".detail").innerHTML = columnDetail(panel, mine);
  part(".legend").innerHTML = legend(trace, mine, colours);
  if (part("details").open) part(".table").innerHTML = numbersTable(panel, mine);
}

function legend(trace, mine, colours) {
  const shown = { gate: trace.gate ? "gate openness" : "change of state (no gates)", change: "change of state", certainty: "certainty of readout", halting: "halting weight" };
  const steps = [0, 0.25, 0.5, 0.75, 1].map((value, at) => tag("rect", { x: at * 14, y: 0, width: 14, height: 12, fill: shade(colours, value).fill, stroke: colours.line }));
  const ring = tag("rect", { x: 1.5, y: 1.5, width: 19, height: 11, rx: 3, fill: "none", stroke: colours.known, "stroke-width": 2.4 });
  const tiny = (width, inside) => `<svg width="${width}" height="14" aria-hidden="true">${inside}</svg>`;
  return `<span>${tiny(72, steps.join(""))}${shown[mine.cells]} 0 to 1</span><span>${tiny(22, ring)}says the true value of its operation</span><span>✓ from here on</span>${trace.gate ? `<span>${tiny(22, tag("rect", { x: 1, y: 5, width: 20, height: 4, fill: colours.read }))}its gate opens</span>` : ""}`;
}

/* Choosing ------------------------------------------------------------------------------------------------------ */

/** A click chooses the column, and in the score also the step. */
function choose(element, event, where) {
  const panel = panels[[...$("panels").children].indexOf(element)];
  const drawn = panel?.[where];
  if (!drawn) return;
  const box = element.querySelector(`.${where} svg`).getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  if (where === "map") {
    const target = Math.floor((y - drawn.y(0)) / drawn.tall);
    if (target >= 0 && target < panel.trace.size) view.column = target;
  } else {
    const column = Math.floor((x - drawn.layout.left) / drawn.layout.cell);
    if (column >= 0 && column < panel.trace.size) view.column = view.column === column ? null : column;
    for (let row = 0; row <= panel.trace.steps; row++) {
      if (y >= drawn.y(row) && y < drawn.y(row) + ROW + GAP) {
        if (row !== view.row && column >= 0) view.column = column;
        view.row = row;
        break;
      }
    }
  }
  draw();
}

function goTo(row) {
  view.row = Math.max(0, Math.min(lastRow(), row));
  draw();
}

function play() {
  if (view.row >= lastRow()) goTo(0);
  const next = () => {
    goTo(view.row + 1);
    if (view.row >= lastRow()) pause();
    else playing = setTimeout(next, +$("pace").value);
  };
  playing = setTimeout(next, +$("pace").value);
  showPlaying();
}

function pause() {
  clearTimeout(playing);
  playing = null;
  showPlaying();
}

function showPlaying() {
  // While it plays, a screen reader would be flooded; it hears where the playing ends.
  $("said").setAttribute("aria-live", playing === null ? "polite" : "off");
  $("play").textContent = playing === null ? "▶ Play" : "❚❚ Pause";
  $("play").setAttribute("aria-label", playing === null ? "Play" : "Pause");
}

function moveColumn(by) {
  const first = panels.find((panel) => panel.trace);
  if (!first) return;
  const size = first.trace.size;
  view.column = view.column === null ? (by > 0 ? 0 : size - 1) : (view.column + by + size) % size;
  draw();
}

const KEYS = {
  " ": () => (playing === null ? play() : pause()),
  ArrowRight: () => { pause(); goTo(view.row + 1); },
  ArrowLeft: () => { pause(); goTo(view.row - 1); },
  Home: () => { pause(); goTo(0); },
  End: () => { pause(); goTo(lastRow()); },
  ".": () => moveColumn(1),
  ",": () => moveColumn(-1),
  Escape: () => { view.column = null; draw(); },
  h: () => { const count = $("head").options.length - 1; view.head = view.head === null ? 0 : (view.head + 1) % count; $("head").value = view.head; draw(); },
  a: () => { view.head = null; $("head").value = ""; draw(); },
  m: () => { const kinds = ["arrows", "map", "both"]; view.reads = kinds[(kinds.indexOf(view.reads) + 1) % 3]; $("reads").value = view.reads; draw(); },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  if (at.matches("input:not([type=range]), select")) return;
  // Buttons and the summary keep their space bar, the slider its arrows.
  if (event.key === " " && at.matches("button, summary")) return;
  if (at.matches("[type=range]") && event.key !== " " && !/^[a-z,.]$/.test(event.key)) return;
  if (!KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
}

/* Saving -------------------------------------------------------------------------------------------------------- */

/** All panels as one picture, with a line that says what is seen. */
function picture() {
  const colours = palette();
  const shown = panels.filter((panel) => panel.score);
  let left = 16, height = 0;
  const parts = shown.map((panel) => {
    const width = Math.max(panel.score.layout.width, 260);
    const title = label(`${panel.model.name} says ${panel.trace.answer}`, { x: left + 6, y: 50, "text-anchor": "start", "font-size": 13, "font-weight": 700, fill: colours.ink });
    const place = (svgText, y) => svgText.replace("<svg ", `<svg x="${left}" y="${y}" `);
    const below = panel.map ? place(panel.map.picture, 66 + panel.score.height) : "";
    height = Math.max(height, 66 + panel.score.height + (panel.map ? panel.map.height : 0));
    left += width + 16;
    return title + place(panel.score.picture, 62) + below;
  });
  const name = label(`${view.text}   ${stepName(view.row, lastRow())}`, { x: 22, y: 24, "text-anchor": "start", "font-size": 13, fill: colours.ink });
  const width = Math.max(left, 44 + 8 * (view.text.length + 20));
  const paper = tag("rect", { width, height: height + 16, fill: colours.card });
  return { width, height: height + 16, text: svg(width, height + 16, `${view.text}, ${stepName(view.row, lastRow())}`, paper + name + parts.join("")) };
}

async function asPng({ width, height, text }) {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  image.src = address;
  await image.decode();
  URL.revokeObjectURL(address);
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** The numbers as the page has them, in plain nested lists. */
function traceAsJson() {
  const round = (value) => Math.round(value * 1e4) / 1e4;
  const nest = (values, [first, ...rest]) => {
    if (values === null) return null;
    if (!rest.length) return Array.from(values, round);
    const size = values.length / first;
    return Array.from({ length: first }, (_, at) => nest(values.subarray(at * size, (at + 1) * size), rest));
  };
  const records = panels.filter((panel) => panel.trace).map(({ model, trace, parsed }) => ({
    model: model.name, text: trace.text, columns: trace.columns, answers: trace.answers, answer: trace.answer, truth: parsed.value,
    readout: trace.readout, steps: trace.steps, heads: trace.heads, tree: parsed.tree,
    attention: nest(Float32Array.from(trace.weights.subarray(0, trace.steps * trace.heads * trace.size ** 2), (byte) => byte / 255), [trace.steps, trace.heads, trace.size, trace.size]),
    openness: nest(trace.gate && trace.gate.subarray(0, trace.steps * trace.size), [trace.steps, trace.size]),
    change: nest(trace.changes.subarray(0, trace.steps * trace.size), [trace.steps, trace.size]),
    halting: nest(trace.halts && trace.halts.subarray(0, trace.steps * trace.size), [trace.steps, trace.size]),
    readouts: nest(trace.chances.subarray(0, (trace.steps + 1) * trace.size * trace.answers.length), [trace.steps + 1, trace.size, trace.answers.length]),
  }));
  const axes = { attention: "step, head, target, source (within 0.002)", openness: "step, column", change: "step, column", halting: "step, column", readouts: "start and steps, column, answer" };
  return JSON.stringify({ link: location.href, axes, traces: records });
}

async function save(ending, make) {
  const blob = await make();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `ndr-${view.row === 0 ? "start" : `t${view.row - 1}`}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  $("done").textContent = `${link.download} saved`;
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    $("done").textContent = "Link copied";
  } catch {
    $("done").textContent = "The link stands in the address bar";
  }
}

/* Theme and wiring ---------------------------------------------------------------------------------------------- */

function keptTheme() {
  try { return localStorage.getItem("ndr-theme"); } catch { return null; /* a file may have no storage */ }
}

function chooseTheme() {
  const wished = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = keptTheme() ?? (wished.matches ? "dark" : "light");
  wished.addEventListener("change", () => {
    // Whoever has chosen keeps the choice.
    if (keptTheme() !== null) return;
    document.documentElement.dataset.theme = wished.matches ? "dark" : "light";
    draw();
  });
}

function switchTheme() {
  const next = themeName() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("ndr-theme", next); } catch { /* a file may have no storage */ }
  draw();
}

function whole(text, most) {
  return /^\d{1,4}$/.test(text) && +text >= 1 && +text <= most ? +text : null;
}

function listen() {
  let typing = null;
  const on = (id, event, act) => $(id).addEventListener(event, act);
  on("question", "submit", (event) => event.preventDefault());
  on("text", "input", () => {
    view.text = $("text").value;
    clearTimeout(typing);
    typing = setTimeout(() => { fillExamples(); ask(); }, 120);
  });
  on("examples", "change", () => {
    const place = $("examples").value;
    if (place === "") return;
    view.text = $("text").value = models[view.model].examples[place];
    view.column = null;
    ask();
  });
  on("model", "change", () => { view.model = +$("model").value; fillExamples(); fillHeads(); ask(); });
  on("other", "change", () => { view.other = $("other").value === "" ? null : +$("other").value; fillHeads(); ask(); });
  on("steps", "input", () => {
    const said = $("steps").value.trim();
    const steps = whole(said, MOST_STEPS);
    if (said !== "" && steps === null) return showProblem(new Problem(`the number of steps lies between 1 and ${MOST_STEPS}`, null, "steps"));
    view.steps = steps;
    clearTimeout(typing);
    typing = setTimeout(ask, 120);
  });
  on("head", "change", () => { view.head = $("head").value === "" ? null : +$("head").value; draw(); });
  on("reads", "change", () => { view.reads = $("reads").value; draw(); });
  on("cells", "change", () => { view.cells = $("cells").value; draw(); });
  on("step", "input", () => { pause(); goTo(+$("step").value); });
  on("to-start", "click", KEYS.Home);
  on("back", "click", KEYS.ArrowLeft);
  on("play", "click", KEYS[" "]);
  on("forth", "click", KEYS.ArrowRight);
  on("to-end", "click", KEYS.End);
  on("theme", "click", switchTheme);
  on("save-png", "click", () => save("png", () => asPng(picture())));
  on("save-svg", "click", () => save("svg", () => new Blob([picture().text], { type: "image/svg+xml" })));
  on("save-json", "click", () => save("json", () => new Blob([traceAsJson()], { type: "application/json" })));
  on("copy-link", "click", copyLink);
  document.addEventListener("keydown", onKey);
  addEventListener("resize", draw);
  addEventListener("hashchange", () => { readLink(location.hash, view, names(), MOST_STEPS); fillControls(); ask(); });
}

start();
