// View of the reader: pan, zoom and fit. A clicked frame keeps its position.

const view = { x: 0, y: 0, zoom: 1 };
const size = { width: 1, height: 1 };
const MARGIN = 24;
const READABLE = 0.9; // scale from which letters of 11 pixels are readable

const world = byId("world");
const picture = byId("picture");

function look() {
  world.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.zoom})`);
}

function fit() {
  const { width, height } = picture.getBoundingClientRect();
  const [wide, high] = [width - 2 * MARGIN, height - 2 * MARGIN];
  view.zoom = Math.max(0.02, Math.min(1.5, wide / size.width, high / size.height));
  view.x = (width - size.width * view.zoom) / 2;
  view.y = MARGIN + Math.max(0, (high - size.height * view.zoom) / 2);
  look();
}

function zoom(factor, x, y) {
  const { width, height } = picture.getBoundingClientRect();
  const [atX, atY] = [x ?? width / 2, y ?? height / 2];
  const next = Math.min(8, Math.max(0.02, view.zoom * factor));
  view.x = atX - ((atX - view.x) * next) / view.zoom;
  view.y = atY - ((atY - view.y) * next) / view.zoom;
  view.zoom = next;
  look();
}

// Move a box to the middle at a readable scale.
function show(box, always = true) {
  const element = elements.get(box);
  if (!element) return;
  const window_ = picture.getBoundingClientRect();
  const seen = element.getBoundingClientRect();
  const inside =
    seen.left >= window_.left && seen.right <= window_.right &&
    seen.top >= window_.top && seen.bottom <= window_.bottom;
  if (!always && inside) return;
  if (always && view.zoom < READABLE) zoom(READABLE / view.zoom);
  const at = element.getBoundingClientRect();
  const high = Math.min(at.height, window_.height - 2 * MARGIN);
  const wide = Math.min(at.width, window_.width - 2 * MARGIN);
  view.x += window_.left + window_.width / 2 - (at.left + wide / 2);
  view.y += window_.top + window_.height / 2 - (at.top + high / 2);
  look();
}

// --- open boxes --------------------------------------------------------------------------------

let captures = DATA.captures;
let turn = 0; // number of the layout: an outdated layout is not displayed

// Lay out and paint the open boxes. `anchor` is the box that keeps its position.
async function refresh(anchor) {
  turn += 1;
  const mine = turn;
  document.body.dataset.ready = "";
  const started = performance.now();
  const before = anchor && elements.get(anchor)?.getBoundingClientRect();
  const focused = document.activeElement?.closest?.("[data-box]")?.dataset.box;
  const { width, height } = picture.getBoundingClientRect();
  const found = await placed(Math.max(0.5, width / Math.max(height, 1)));
  if (mine !== turn) return;
  const laidOut = performance.now();
  paint(found);
  Object.assign(size, { width: found.out.width, height: found.out.height });
  const after = before && elements.get(anchor)?.getBoundingClientRect();
  if (after) {
    view.x += before.left - after.left;
    view.y += before.top - after.top;
    look();
  } else fit();
  painted(focused);
  Object.assign(document.body.dataset, {
    layout: Math.round(laidOut - started),
    paint: Math.round(performance.now() - laidOut),
    since: Math.round(performance.now()),
    ready: "yes",
  });
}

async function toggle(box) {
  if (!canFold(box)) return;
  if (open.has(box)) open.delete(box);
  else open.add(box);
  await refresh(box);
  remember();
}

async function openAll() {
  for (const box of boxes) if (canFold(box)) open.add(box);
  await refresh();
  remember();
}

async function foldAll() {
  open.clear();
  await refresh();
  remember();
}

// Open the boxes around a box, and return true if any was closed.
function unveil(box) {
  let changed = false;
  for (let around = box.parent; around; around = around.parent) {
    if (canFold(around) && !open.has(around)) {
      open.add(around);
      changed = true;
    }
  }
  return changed;
}

// --- mouse and touch ---------------------------------------------------------------------------

function handle() {
  let held = null;
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = picture.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - left, event.clientY - top);
  }, { passive: false });
  picture.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, viewX: view.x, viewY: view.y, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    const [x, y] = [event.clientX - held.x, event.clientY - held.y];
    held.moved ||= Math.abs(x) + Math.abs(y) > 4;
    if (!held.moved) return;
    view.x = held.viewX + x;
    view.y = held.viewY + y;
    look();
  });
  addEventListener("pointerup", () => {
    if (held?.moved) addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true });
    setTimeout(() => { held = null; });
  });
  picture.addEventListener("click", clicked);
}

function clicked(event) {
  const box = ends.get(Number(event.target.closest("[data-box]")?.dataset.box));
  if (!box) return choose(null);
  moveTo(box);
  if (event.target.closest(".fold")) return toggle(box);
  return choose(box);
}
