
"use strict";
(() => {
  const root = document.documentElement, themes = ["", "dark", "light"];
  // A file may have no store.
  const store = (work) => { try { return work(window.localStorage); } catch { return null; } };
  const apply = (theme) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; };
  apply(store((s) => s.getItem("gaia-theme")) || "");
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
      apply(next);
      store((s) => s.setItem("gaia-theme", next));
    });
  });
})();
