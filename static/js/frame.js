// What every page does: menu, dialogs, command palette, keys of the rollout page.

const typing = (target) => target.matches("input, textarea, select, [contenteditable]");
const palette = () => document.getElementById("palette");

function openPalette() {
  const dialog = palette();
  if (!dialog || dialog.open) return;
  dialog.showModal();
  const input = dialog.querySelector("input");
  input.select();
  window.htmx?.trigger(input, "palette-open");
}

document.addEventListener("click", (event) => {
  const on = (name) => event.target.closest(`[${name}]`);
  if (on("data-nav-toggle")) {
    const open = on("data-nav-toggle").closest(".nav").toggleAttribute("data-open");
    on("data-nav-toggle").setAttribute("aria-expanded", String(open));
  }
  if (on("data-open-palette")) openPalette();
  if (on("data-open-dialog")) document.getElementById(on("data-open-dialog").dataset.openDialog)?.showModal();
  if (on("data-close-dialog")) on("data-close-dialog").closest("dialog").close();
  if (on("data-reload")) location.reload();
});

// A verb is sent once: a second press of the same form does nothing.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent));

const options = () => [...palette().querySelectorAll('[role="option"]')];

/** Marks one option, and tells who listens to the field which. */
function choose(chosen) {
  options().forEach((option) => option.setAttribute("aria-selected", String(option === chosen)));
  palette().querySelector("input").setAttribute("aria-activedescendant", chosen?.id ?? "");
}

function movePalette(key) {
  const all = options();
  if (!all.length) return;
  const at = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
  const next = all[(at + (key === "ArrowDown" ? 1 : -1) + all.length) % all.length];
  choose(next);
  next.scrollIntoView({ block: "nearest" });
}

function paletteKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    movePalette(event.key);
  }
  if (event.key === "Enter") {
    event.preventDefault();
    palette().querySelector('[aria-selected="true"]')?.click();
  }
}

function step(delta) {
  const items = [...document.querySelectorAll(".outline-item")];
  const at = items.findIndex((item) => item.hasAttribute("aria-current"));
  items[at + delta]?.click();
}

document.addEventListener("keydown", (event) => {
  const held = event.ctrlKey || event.metaKey;
  if (held && event.key === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (palette()?.open) {
    paletteKey(event);
    return;
  }
  if (held || typing(event.target)) return;
  if (event.key === "j") step(1);
  if (event.key === "k") step(-1);
});

document.addEventListener("click", (event) => {
  const item = event.target.closest(".outline-item");
  if (!item) return;
  document.querySelector(".outline-item[aria-current]")?.removeAttribute("aria-current");
  item.setAttribute("aria-current", "true");
});

// The first thing found is chosen.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.id === "palette-list") choose(options()[0]);
});

// Where the server does not answer, old rows stay, and the pill that speaks for them says since when they are old.
function turnStale(event) {
  const pill = document.querySelector(`[data-fed-by="${event.detail.target?.id}"]`);
  if (!pill || pill.dataset.state === "stale") return;
  pill.dataset.state = "stale";
  pill.textContent = `Stale since ${new Date().toISOString().slice(11, 19)} UTC`;
}
document.addEventListener("htmx:responseError", turnStale);
document.addEventListener("htmx:sendError", turnStale);

// A table keeps how far it was scrolled sideways when its rows come anew.
const scrolled = new Map();
document.addEventListener("htmx:beforeSwap", (event) => {
  event.detail.target.querySelectorAll(".table-wrap[id]").forEach((table) => scrolled.set(table.id, table.scrollLeft));
});
document.addEventListener("htmx:afterSwap", (event) => {
  event.target.querySelectorAll(".table-wrap[id]").forEach((table) => (table.scrollLeft = scrolled.get(table.id) ?? 0));
});
