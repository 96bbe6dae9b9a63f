// Long tables: 20 rows a page, a search box, headers that sort. Short ones stay as they are.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.dataframe")) {
    if (table.tBodies[0]?.rows.length > 20) new simpleDatatables.DataTable(table, { perPage: 20, type: "text" });
  }
});
