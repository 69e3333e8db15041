
"use strict";
(() => {
  const table = document.getElementById("sample-table");
  if (!table) return;
  const body = table.tBodies[0], rows = Array.from(body.rows);
  const by = (id) => document.getElementById(id);
  const text = by("filter-text"), level = by("filter-level"), right = by("filter-right"), why = by("filter-why");
  by("filters").hidden = false;
  const filter = () => {
    const wanted = text.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const fits = (!level.value || row.dataset.level === level.value) && (!right.value || row.dataset.right === right.value)
        && (!why.value || row.dataset.why === why.value) && (!wanted || row.textContent.toLowerCase().includes(wanted));
      row.hidden = !fits;
      if (fits) shown += 1;
    }
    by("filter-count").textContent = shown + " of " + rows.length;
  };
  for (const control of [text, level, right, why]) control.addEventListener("input", filter);
  by("filter-clear").addEventListener("click", () => {
    for (const control of [text, level, right, why]) control.value = "";
    filter();
  });
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : cell.dataset.value;
  };
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = head.dataset.sort === "number"
        ? (a, b) => Number(value(a, column)) - Number(value(b, column))
        : (a, b) => value(a, column).localeCompare(value(b, column));
      rows.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
      body.append(...rows);
    });
  });
  // A link to the samples of one class shows them.
  for (const link of document.querySelectorAll("a[data-show-why]")) {
    link.addEventListener("click", () => {
      for (const control of [text, level, right]) control.value = "";
      why.value = link.dataset.showWhy;
      filter();
    });
  }
  // A link to a sample that is filtered away shows it all the same.
  window.addEventListener("hashchange", () => {
    const row = document.getElementById(location.hash.slice(1));
    if (row && row.hidden) { by("filter-clear").click(); row.scrollIntoView(); }
  });
  filter();
})();
