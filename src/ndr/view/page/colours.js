"use strict";
// Ramps of one hue that grow steadily in lightness, and Okabe-Ito accents: readable without telling colours apart.
const RAMPS = {
  light: ["#f0f3f7", "#b9d7ea", "#5fa3d0", "#1f6cab", "#08306b"],
  dark: ["#1d2632", "#24486b", "#3479b3", "#7fbce6", "#eef8ff"],
};

function themeName() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

/** The theme's colours as plain values, so that a saved picture needs no style sheet. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const found = { ramp: RAMPS[themeName()].map(rgb) };
  for (const name of ["card", "ink", "soft", "line", "read", "known", "bad", "band", "accent"]) found[name] = colour(name);
  return found;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** The colour of a number in 0..1, and the ink that can be read on it. */
function shade(colours, value) {
  const place = Math.min(1, Math.max(0, value)) * (colours.ramp.length - 1);
  const low = Math.min(Math.floor(place), colours.ramp.length - 2);
  const mixed = colours.ramp[low].map((part, at) => Math.round(part + (colours.ramp[low + 1][at] - part) * (place - low)));
  const light = 0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2];
  return { fill: `rgb(${mixed.join(",")})`, ink: light > 140 ? "#10181f" : "#ffffff" };
}
