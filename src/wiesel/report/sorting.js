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
  if (filter) {
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }
}
