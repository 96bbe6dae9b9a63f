// Folded sections open where a link leads into them, and all at once by a button below the page's title.
const folds = () => [...document.querySelectorAll("details.ev-depth")];

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (const fold of folds()) {
    if (fold.contains(target) || fold.parentElement === target) fold.open = true;
  }
  target.scrollIntoView();
}

function offerAll() {
  if (folds().length < 2) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "ev-open-all";
  const closed = () => folds().filter((fold) => !fold.open);
  const look = () => {
    button.textContent = closed().length ? `open all ${folds().length} folded sections` : "fold the sections again";
  };
  button.addEventListener("click", () => {
    const open = closed().length > 0;
    for (const fold of folds()) fold.open = open;
  });
  for (const fold of folds()) fold.addEventListener("toggle", look);
  look();
  document.querySelector("article h1")?.after(button);
}

document.addEventListener("DOMContentLoaded", () => {
  offerAll();
  openTarget();
});
window.addEventListener("hashchange", openTarget);
