"use strict";
// The view as a link: everything after # says what is shown, and is never sent to a server.

function writeLink(view, names) {
  const words = new URLSearchParams();
  words.set("text", view.text);
  words.set("model", names[view.model]);
  if (view.other !== null) words.set("with", names[view.other]);
  if (view.steps !== null) words.set("steps", view.steps);
  words.set("step", view.row);
  if (view.head !== null) words.set("head", view.head);
  if (view.reads !== "arrows") words.set("reads", view.reads);
  if (view.cells !== "gate") words.set("cells", view.cells);
  if (view.column !== null) words.set("column", view.column);
  return `#${words}`;
}

/** What a link says, as far as it makes sense; the rest stays as it is. */
function readLink(hash, view, names, mostSteps) {
  const words = new URLSearchParams(hash.slice(1));
  const whole = (key, least, most) => {
    const said = words.get(key);
    return said !== null && /^\d{1,6}$/.test(said) && +said >= least && +said <= most ? +said : null;
  };
  const place = (key) => (names.includes(words.get(key)) ? names.indexOf(words.get(key)) : null);
  if (words.has("text")) view.text = words.get("text");
  view.model = place("model") ?? view.model;
  if (words.has("text")) view.other = place("with");
  view.steps = whole("steps", 1, mostSteps);
  view.row = whole("step", 0, mostSteps) ?? view.row;
  view.head = whole("head", 0, 10_000);
  view.column = whole("column", 0, 100_000);
  if (["arrows", "map", "both"].includes(words.get("reads"))) view.reads = words.get("reads");
  if (["gate", "change", "certainty", "halting"].includes(words.get("cells"))) view.cells = words.get("cells");
}
