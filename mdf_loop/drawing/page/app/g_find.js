// Search: hits are marked, the first ones are opened, and the view moves from hit to hit.

const OPENED = 40; // number of hits for which closed boxes are opened

const haystack = new Map(
  boxes.map((box) => [
    box,
    [
      box.title,
      ...box.lines,
      ...box.details.filter(([what]) => what !== "from constants").map(([, text]) => text),
      ...[...box.left, ...box.right].filter(Boolean).map((port) => port.name),
    ].join("\n").toLowerCase(),
  ]),
);
let hits = [];
let current = -1;

async function find(text) {
  const wanted = text.trim().toLowerCase();
  hits = wanted ? boxes.filter((box) => box.kind !== "branch" && isHit(box, wanted)) : [];
  current = -1;
  markHits();
  byId("found").textContent = wanted ? `${hits.length} found` : "";
  if (hits.length) await next(1);
}

// A text of a frame about its body is not a hit of the frame if it is a hit of an inner box.
function isHit(box, wanted) {
  if (!haystack.get(box).includes(wanted)) return false;
  if (!box.inner || box.title.toLowerCase().includes(wanted)) return true;
  return !boxes.some((each) => isInside(each, box) && haystack.get(each).includes(wanted));
}

function isInside(box, frame) {
  for (let around = box.parent; around; around = around.parent) if (around === frame) return true;
  return false;
}

async function next(step) {
  if (!hits.length) return;
  current = (current + step + hits.length) % hits.length;
  const box = hits[current];
  const few = hits.length <= OPENED ? hits : [box];
  if (few.map(unveil).some(Boolean)) {
    await refresh();
    remember();
  }
  markHits();
  moveTo(box);
  show(box);
  byId("found").textContent = `${current + 1} of ${hits.length} found`;
}

function markHits() {
  for (const element of document.querySelectorAll("#world .hit")) element.classList.remove("hit");
  for (const box of hits) elements.get(box)?.classList.add("hit");
}

function searching() {
  let waiting = 0;
  byId("query").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => find(event.target.value), 150);
  });
  byId("query").addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      next(event.shiftKey ? -1 : 1);
    }
    if (event.key === "Escape") {
      event.target.value = "";
      find("");
      picture.querySelector("[tabindex='0']")?.focus();
    }
  });
}
