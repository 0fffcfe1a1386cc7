"use strict";
// Sort a table by the column whose header is pressed, and show the rows that match a text.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const key = cell.dataset.key;
    if (key === undefined) return cell.textContent.trim().toLowerCase();
    return key === "" ? null : Number(key);
  };
  const compare = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    return a < b ? -1 : a > b ? 1 : 0;
  };
  table.querySelectorAll("thead button").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
      // Unknown values stay last, whichever way the others go.
      rows.sort(([a], [b]) => (a === null || b === null ? compare(a, b) : sign * compare(a, b)));
      for (const [, row] of rows) body.appendChild(row);
    });
  });
  const filter = document.querySelector(`input[data-filters="${table.id}"]`);
  const count = document.querySelector(`output[data-counts="${table.id}"]`);
  if (filter) {
    filter.addEventListener("input", () => {
      const words = filter.value.trim().toLowerCase().split(/\s+/);
      let shown = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      if (count) count.textContent = `${shown} of ${body.rows.length}`;
    });
  }
}
