"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const page = $("#page"), help = $("#help");

  // Rows and turns by key.
  let current = null;
  const mark = (item) => {
    if (current) current.classList.remove("current");
    current = item;
    if (!item) return;
    item.classList.add("current");
    item.scrollIntoView({ block: item.offsetHeight > innerHeight ? "start" : "nearest" });
  };
  const step = (by) => {
    const items = $$("[data-item]");
    if (!items.length) return;
    const at = current ? items.indexOf(document.getElementById(current.id) || current) : -1;
    mark(items[Math.max(0, Math.min(items.length - 1, at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by))]);
  };
  const follow = (selector, root = document) => { const link = $(selector, root); if (link) link.click(); return !!link; };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest && event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      if (help.open) return;
      if (typing) { typing.blur(); return; }
      if (page.dataset.up) location.href = page.dataset.up;
      return;
    }
    if (typing || help.open) return;
    const keys = {
      j: () => step(1), k: () => step(-1),
      n: () => follow("a[rel=next]"), p: () => follow("a[rel=prev]"),
      "/": () => { const box = $("#search") || $("input[type=search]"); if (box) { box.focus(); box.select(); } },
      "?": () => help.showModal(),
      Enter: () => {
        if (!current || event.target.closest("a, button, summary")) return false;
        follow("[data-open]", current);
      },
    };
    if (keys[event.key] && keys[event.key]() !== false) event.preventDefault();
  });
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.matches("[data-item]")) mark(target);

  // A filter counts as soon as it is chosen.
  for (const form of $$("form.filters")) form.addEventListener("change", () => form.requestSubmit());

  // A live page is read again. Blocks that changed are replaced; what was opened, marked or scrolled stays.
  const PAUSE = 2000;
  const texts = new Map($$("[data-key]").map((block) => [block.dataset.key, block.outerHTML]));
  const refresh = async () => {
    let fresh;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch { /* The server is gone or will be back. */ }
    if (!fresh) { setTimeout(refresh, 2 * PAUSE); return; }
    const find = (key) => $(`[data-key="${CSS.escape(key)}"]`);
    let before = null;
    const keys = new Set();
    for (const block of $$("[data-key]", fresh)) {
      const key = block.dataset.key, text = block.outerHTML, here = find(key);
      keys.add(key);
      if (here && texts.get(key) === text) { before = here; continue; }
      const put = document.importNode(block, true);
      if (here) {
        for (const [index, old] of $$("details", here).entries()) {
          const now = $$("details", put)[index];
          if (now) now.open = old.open;
        }
        if (here === current) { current = put; put.classList.add("current"); }
        here.replaceWith(put);
      } else if (before) before.after(put);
      else { const place = $(`[data-list="${CSS.escape(block.parentElement.dataset.list || "")}"]`) || page; place.prepend(put); }
      texts.set(key, text);
      before = put;
    }
    for (const block of $$("[data-key]")) if (!keys.has(block.dataset.key)) block.remove();
    if ($("#page[data-live]", fresh)) setTimeout(refresh, PAUSE);
    else { const badge = $(".bar .badge"); if (badge) badge.remove(); }
  };
  if (page.hasAttribute("data-live")) setTimeout(refresh, PAUSE);
})();
