// Figures of the run page, made from our own JSON with the shared chart theme. One builder a figure.
import { alpha, band, endLabel, limit, line, mount, points, raw } from "./plotly-theme.js";
import { breakAt, trailingMean } from "./series.js";

const narrow = matchMedia("(max-width: 640px)");
const PERCENT = { tickformat: ".0%" };
const percent = (value) => `${(100 * value).toFixed(1)} %`;

/** Width of the drawn mean: wide enough to calm, never more than a fifth of the series. */
export const meanWidth = (n) => Math.max(3, Math.min(16, Math.round(n / 5)));

/** Where SFT ends and GRPO begins; small charts have room for a word only. */
function phases(t, series, column = "short") {
  const rows = series.rows("phases");
  const shapes = rows
    .filter((row) => row.from > 0)
    .map((row) => ({ type: "line", xref: "x", yref: "paper", x0: row.from, x1: row.from, y0: 0, y1: 1, layer: "below",
      line: { width: 1, dash: "dot", color: alpha(t.ink3, 0.7) } }));
  const annotations = rows.map((row) => ({ xref: "x", yref: "paper", x: row.from, y: 1, xanchor: "left", yanchor: "bottom",
    showarrow: false, text: row[column], xshift: row.from > 0 ? 3 : 0, font: { size: 11, color: t.ink3 } }));
  return { shapes, annotations };
}

/** From before version 0, so that its marker is whole, to the newest; wide enough for whole ticks when a run is young. */
function versionAxis(...columns) {
  const newest = Math.max(5, ...columns.flat().filter((version) => version !== null));
  return { title: { text: "policy version" }, range: [-0.02 * newest, 1.02 * newest], unifiedhovertitle: { text: "version %{x}" } };
}

function lastOf(x, y) {
  for (let i = y.length - 1; i >= 0; i -= 1) if (y[i] !== null) return [x[i], y[i]];
  return null;
}

const INTERVAL_HOVER = "%{y:.1%}  [%{customdata[0]:.1%}, %{customdata[1]:.1%}], %{customdata[2]} of %{customdata[3]}";

function estimates(t, n, series, table, name) {
  const rows = series.rows(table);
  const x = rows.map((row) => row.version);
  const bands = rows.length > 1 ? band(t, n, x, rows.map((row) => row.low), rows.map((row) => row.high), "95 % interval") : [];
  const whiskers = { type: "data", symmetric: false, visible: rows.length === 1, color: t.series[n], thickness: 1.5, width: 4,
    array: rows.map((row) => row.high - row.rate), arrayminus: rows.map((row) => row.rate - row.low) };
  const marks = points(t, n, x, rows.map((row) => row.rate), name, {
    error_y: whiskers,
    customdata: rows.map((row) => [row.low, row.high, row.solved, row.tries]),
    hovertemplate: `${INTERVAL_HOVER} at version %{x}`,
  });
  return [...bands, marks];
}

function endLabels(t, found) {
  if (narrow.matches) return [];
  const placed = found.filter((label) => label.at !== null);
  placed.sort((a, b) => b.at[1] - a.at[1]);
  const close = placed.length > 1 && Math.abs(placed[0].at[1] - placed[1].at[1]) < 0.05;
  return placed.map((label, i) => endLabel(t, label.n, label.at[0], label.at[1], `${label.words} ${percent(label.at[1])}`, close ? (i === 0 ? 8 : -8) : 0));
}

function completion(t, series) {
  const x = series.column("train", "version");
  const rate = series.column("train", "rate");
  const smooth = trailingMean(rate, meanWidth(x.length));
  const held = series.rows("held_out");
  const marks = phases(t, series, "words");
  const labels = endLabels(t, [
    { n: 1, at: lastOf(x, smooth), words: "train" },
    { n: 0, at: lastOf(held.map((row) => row.version), held.map((row) => row.rate)), words: "held-out" },
  ]);
  return {
    data: [
      raw(t, 1, x, rate, "train, raw"),
      line(t, 1, x, smooth, `train, mean of ${meanWidth(x.length)} versions`, { hovertemplate: "%{y:.1%}" }),
      ...estimates(t, 0, series, "held_out", "held-out"),
    ],
    layout: {
      margin: { l: 40, r: narrow.matches ? 12 : 108, t: 22, b: 40 },
      xaxis: versionAxis(x, held.map((row) => row.version)),
      yaxis: { range: [0, 1.02], ...PERCENT },
      shapes: marks.shapes,
      annotations: [...marks.annotations, ...labels],
    },
  };
}

function unseen(t, series) {
  const rows = series.rows("unseen");
  return {
    data: estimates(t, 2, series, "unseen", "unseen families"),
    layout: {
      margin: { l: 40, r: narrow.matches ? 12 : 24, t: 22, b: 40 },
      xaxis: versionAxis(rows.map((row) => row.version)),
      yaxis: { range: [0, 1.02], ...PERCENT },
      ...phases(t, series),
    },
  };
}

function reward(t, series) {
  const x = series.column("train", "version");
  const y = series.column("train", "reward");
  return {
    data: [
      raw(t, 1, x, y, "raw"),
      line(t, 1, x, trailingMean(y, meanWidth(x.length)), `mean of ${meanWidth(x.length)} versions`, { hovertemplate: "%{y:.3f}" }),
    ],
    layout: {
      margin: { l: 40, r: 12, t: 22, b: 40 },
      xaxis: versionAxis(x),
      yaxis: { range: [0, 1.02], tickformat: ".1f" },
      ...phases(t, series),
    },
  };
}

function roundsArm(t, n, series, table, name, more = {}) {
  const rows = series.rows(table);
  return points(t, n, rows.map((row) => row.k), rows.map((row) => row.rate), name, {
    error_y: { type: "data", symmetric: false, color: t.series[n], thickness: 1.5, width: 4,
      array: rows.map((row) => row.high - row.rate), arrayminus: rows.map((row) => row.rate - row.low) },
    customdata: rows.map((row) => [row.low, row.high, row.solved, row.tries]),
    hovertemplate: INTERVAL_HOVER,
    ...more,
  });
}

function rounds(t, series) {
  const most = Math.max(1, ...series.column("rounds_now", "k"), ...series.column("rounds_start", "k"));
  const arms = [];
  if (series.has("rounds_start")) arms.push(roundsArm(t, 5, series, "rounds_start", "start"));
  arms.push(roundsArm(t, 0, series, "rounds_now", "now"));
  return {
    data: arms,
    layout: {
      margin: { l: 40, r: 12, t: 8, b: 40 },
      xaxis: { title: { text: "rounds used, at most" }, dtick: 1, range: [0.6, most + 0.4], unifiedhovertitle: { text: "within %{x} rounds" } },
      yaxis: { range: [0, 1.02], ...PERCENT },
    },
  };
}

function staleness(t, series, el) {
  const x = series.column("staleness", "versions");
  const bound = Number(el.dataset.limit);
  return {
    data: [{ type: "bar", x, y: series.column("staleness", "samples"), name: "samples", width: 0.7,
      marker: { color: t.series[0] }, hovertemplate: "%{y:,} samples" }],
    layout: {
      margin: { l: 48, r: 12, t: 16, b: 40 }, bargap: 0.3,
      xaxis: { title: { text: "versions behind when used" }, dtick: 1, range: [-0.6, Math.max(bound, ...x, 1) + 0.6], unifiedhovertitle: { text: "%{x} versions behind" } },
      yaxis: { rangemode: "tozero", tickformat: "," },
      shapes: [{ type: "line", xref: "x", yref: "paper", x0: bound + 0.45, x1: bound + 0.45, y0: 0, y1: 1, line: { width: 1, dash: "dash", color: t.ink3 } }],
      annotations: [{ xref: "x", yref: "paper", x: bound + 0.45, y: 1, xanchor: "right", yanchor: "bottom", showarrow: false,
        text: `limit ${bound}`, font: { size: 11, color: t.ink3 } }],
    },
  };
}

const RATES = new Set(["flat_share", "effective_sample", "truncated_fraction"]);

/** One column of the learner's steps, small. `data-limit` and `data-limit-words` draw the line that somebody chose. */
function learner(t, series, el) {
  const column = el.dataset.column;
  const { x, y } = breakAt(series.rows("steps"), column);
  const smooth = trailingMean(y, meanWidth(y.length));
  const bound = el.dataset.limit ? limit(t, Number(el.dataset.limit), el.dataset.limitWords) : { shapes: [], annotations: [] };
  const rate = RATES.has(column);
  return {
    data: [
      raw(t, 0, x, y, "raw"),
      line(t, 0, x, smooth, `mean of ${meanWidth(y.length)}`, { line: { width: 1.5, color: t.series[0] }, hovertemplate: rate ? "%{y:.1%}" : "%{y:.3g}" }),
    ],
    layout: {
      margin: { l: 38, r: 2, t: 8, b: 18 },
      xaxis: { nticks: 3, ticklen: 3, rangemode: "tozero", unifiedhovertitle: { text: "version %{x}" } },
      yaxis: { nticks: 3, rangemode: ["loss", "kl"].includes(column) ? "normal" : "tozero", tickformat: rate ? ".0%" : "~g" },
      ...bound,
    },
  };
}

const BUILDERS = { completion, unseen, reward, rounds, staleness, learner };

/** Draw every `[data-chart]` below root; a chart without its numbers keeps the words that the server put there. */
export function draw(root, series) {
  root.querySelectorAll("[data-chart]").forEach((el) => {
    const needs = el.dataset.needs?.split(" ");
    if (needs && !needs.some((name) => series.has(name))) return;
    if (!el.classList.contains("js-plotly-plot")) el.replaceChildren();
    mount(el, (t) => BUILDERS[el.dataset.chart](t, series, el));
  });
}
