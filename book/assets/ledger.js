// The ledger: a filter hides the rows that it excludes and stands in the address; a link to a claim opens its row.
const FIELDS = { paper: "paper", verdict: "verdict", scale: "scale" };

function openTarget() {
  const line = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (line?.tagName !== "DETAILS") return;
  line.hidden = false;
  line.closest("section").hidden = false;
  line.open = true;
  line.scrollIntoView();
}

function labelled(bar, words, field) {
  const label = bar.appendChild(document.createElement("label"));
  label.append(`${words} `, field);
  return field;
}

function selected(bar, lines, name) {
  const select = labelled(bar, FIELDS[name], document.createElement("select"));
  for (const value of ["all", ...new Set(lines.map((line) => line.dataset[name]))]) select.add(new Option(value));
  return select;
}

function addFilter(lines) {
  const bar = document.createElement("div");
  bar.className = "ev-filter";
  const selects = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, selected(bar, lines, name)]));
  const words = labelled(bar, "words", document.createElement("input"));
  words.type = "search";
  const shown = bar.appendChild(document.createElement("output"));
  const filter = () => {
    const wanted = words.value.trim().toLowerCase();
    for (const line of lines) {
      const fits = Object.entries(selects).every(([name, { value }]) => value === "all" || line.dataset[name] === value);
      line.hidden = !fits || !line.textContent.toLowerCase().includes(wanted);
    }
    for (const section of new Set(lines.map((line) => line.closest("section")))) {
      section.hidden = ![...section.querySelectorAll(".ev-claims > details")].some((line) => !line.hidden);
    }
    const n = lines.filter((line) => !line.hidden).length;
    shown.textContent = n < lines.length ? `${n} of ${lines.length} claims` : "";
  };
  const remember = () => {
    filter();
    const chosen = Object.entries(selects).map(([name, { value }]) => [name, value]).filter(([, value]) => value !== "all");
    if (words.value.trim()) chosen.push(["words", words.value.trim()]);
    history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
  };
  const restore = () => {
    const chosen = new URLSearchParams(location.hash.slice(1));
    if (![...Object.keys(selects), "words"].some((name) => chosen.has(name))) return;
    for (const [name, select] of Object.entries(selects)) select.value = chosen.get(name) ?? "all";
    for (const select of Object.values(selects)) if (select.selectedIndex < 0) select.value = "all";
    words.value = chosen.get("words") ?? "";
    filter();
  };
  for (const select of Object.values(selects)) select.addEventListener("change", remember);
  words.addEventListener("input", remember);
  lines[0].closest("section").before(bar);
  restore();
  addEventListener("hashchange", restore);
}

document.addEventListener("DOMContentLoaded", () => {
  const lines = [...document.querySelectorAll(".ev-claims > details")];
  if (!lines.length) return;
  addFilter(lines);
  openTarget();
  addEventListener("hashchange", openTarget);
});
