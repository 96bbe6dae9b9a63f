// Long tables: 20 rows a page, a search box, headers that sort. Short ones stay as they are.
// The sorter wants one row of headers: the name of pandas' index joins the first.
function joinHeaders(table) {
  const [first, ...others] = table.tHead?.rows ?? [];
  for (const row of others) {
    [...row.cells].forEach((cell, i) => {
      if (first.cells[i] && !first.cells[i].textContent.trim()) first.cells[i].textContent = cell.textContent;
    });
    row.remove();
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.dataframe")) {
    if (!(table.tBodies[0]?.rows.length > 20)) continue;
    joinHeaders(table);
    new simpleDatatables.DataTable(table, { perPage: 20, type: "text" });
  }
});
