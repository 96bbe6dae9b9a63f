// Long tables: 20 rows a page, a search box, headers that sort. Short ones stay as they are.
// The sorter wants one row of headers: what stands above the last row joins it.
function joinHeaders(table) {
  const rows = [...(table.tHead?.rows ?? [])];
  const last = rows.pop();
  for (const row of rows) {
    let i = 0;
    for (const cell of row.cells) {
      for (let n = 0; n < cell.colSpan; n += 1, i += 1) {
        const above = cell.textContent.trim();
        if (above) last.cells[i].textContent = `${above}, ${last.cells[i].textContent}`;
      }
    }
    row.remove();
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".embviz-table table")) {
    if (!(table.tBodies[0]?.rows.length > 20)) continue;
    joinHeaders(table);
    new simpleDatatables.DataTable(table, { perPage: 20, type: "text" });
  }
});
