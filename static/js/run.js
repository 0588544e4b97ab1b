// The run page: the live link, text that changes in place, charts that follow.
import { draw } from "./charts.js";
import { Live } from "./live.js";
import { Series } from "./series.js";

const data = JSON.parse(document.getElementById("run-data").textContent);
const series = new Series(data.series);
const pill = document.querySelector("[data-pill]");
const skew = Date.now() / 1000 - data.server_time;
let frozenAt = null;

/** The value at a dotted path, or undefined. */
const at = (object, path) => path.split(".").reduce((part, key) => part?.[key], object);

/** Text and attributes that name a path of the message take its value; nothing else on the page moves. */
function fill(message) {
  document.querySelectorAll("[data-live]").forEach((el) => {
    const value = at(message, el.dataset.live);
    if (value !== undefined && value !== null && el.textContent !== String(value)) el.textContent = String(value);
  });
  document.querySelectorAll("[data-live-attrs]").forEach((el) => {
    for (const part of el.dataset.liveAttrs.split(";")) {
      const [name, path] = part.split("=");
      const value = at(message, path);
      if (value !== undefined && value !== null) el.setAttribute(name, String(value));
    }
  });
}

function words(state, heard) {
  if (state === "live") return "Live";
  if (state === "polling") return "Polling every 5 s, live connection blocked";
  return `Stale since ${new Date(heard).toISOString().slice(11, 19)} UTC`;
}

function show(state, heard) {
  frozenAt = state === "stale" ? heard / 1000 : null;
  if (!pill) return;
  pill.dataset.state = state;
  const text = words(state, heard);
  if (pill.textContent !== text) pill.textContent = text;
}

function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return `${Math.max(0, Math.floor(seconds))} s`;
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Clocks run on the server's time and stand still while the page is stale. */
function tick() {
  const now = (frozenAt ?? Date.now() / 1000) - skew;
  document.querySelectorAll("[data-since]").forEach((el) => {
    const text = duration(now - Number(el.dataset.since));
    if (el.textContent !== text) el.textContent = text;
  });
}

const PARTS_MS = 4_000;
let partsDue = null;
let partsAsked = 0;

/** Ask for the tables again, at most every few seconds, and never lose the last change. */
function partsChanged() {
  if (partsDue) return;
  partsDue = setTimeout(() => {
    partsDue = null;
    partsAsked = Date.now();
    document.body.dispatchEvent(new CustomEvent("assay:changed"));
  }, Math.max(0, partsAsked + PARTS_MS - Date.now()));
}

const shownState = data.state.state;

function apply(delta) {
  if (delta.state.state !== shownState || delta.state.phase !== data.state.phase) {
    location.reload(); // verbs, banners and sentences differ by state: the server writes them
    return;
  }
  fill(delta);
  series.merge(delta.series);
  if (window.Plotly) draw(document, series);
  partsChanged();
}

if (window.Plotly) draw(document, series);
document.addEventListener("htmx:afterSettle", (event) => window.Plotly && draw(event.target, series));

if (data.live) {
  const link = new Live({ socketUrl: data.socket_url, pollUrl: data.poll_url, seq: data.seq, apply, show });
  link.start();
  setInterval(tick, 1000);
}
