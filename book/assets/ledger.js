// The ledger: a filter hides the lines that it excludes, and a link to a claim opens its line.
function openTarget() {
  const line = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (line?.tagName !== "DETAILS") return;
  line.hidden = false;
  line.open = true;
  line.scrollIntoView();
}

function labelled(bar, words, field) {
  const label = bar.appendChild(document.createElement("label"));
  label.append(`${words} `, field);
  return field;
}

function addFilter(lines) {
  const bar = document.createElement("div");
  bar.className = "ev-filter";
  const verdict = labelled(bar, "verdict", document.createElement("select"));
  const words = labelled(bar, "words", document.createElement("input"));
  words.type = "search";
  const shown = bar.appendChild(document.createElement("output"));
  for (const name of ["all", ...new Set(lines.map((line) => line.dataset.verdict))]) verdict.add(new Option(name));
  const filter = () => {
    const wanted = words.value.trim().toLowerCase();
    for (const line of lines) {
      const fits = verdict.value === "all" || line.dataset.verdict === verdict.value;
      line.hidden = !fits || !line.textContent.toLowerCase().includes(wanted);
    }
    const n = lines.filter((line) => !line.hidden).length;
    shown.textContent = n < lines.length ? `${n} of ${lines.length} claims` : "";
  };
  verdict.addEventListener("change", filter);
  words.addEventListener("input", filter);
  lines[0].closest("section").before(bar);
}

document.addEventListener("DOMContentLoaded", () => {
  const lines = [...document.querySelectorAll(".ev-claims details")];
  if (!lines.length) return;
  addFilter(lines);
  openTarget();
  addEventListener("hashchange", openTarget);
});
