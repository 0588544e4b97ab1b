// The reader's own choice of light or dark, set before the first paint. Loaded without defer for that reason.
(() => {
  const KEY = "assay-theme";
  const root = document.documentElement;
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is blocked: the system's setting holds
    }
  };
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) return;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme ?? (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.theme);
    } catch {
      // holds for this page only
    }
  });
})();
