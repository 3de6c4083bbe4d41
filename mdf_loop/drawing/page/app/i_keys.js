// Keyboard as in a tree: one box has the focus, and arrow keys move along, in and out.

let at = model.boxes[0] || null;

function spoken(box) {
  const kinds = { node: "node", run: "operators", owner: "node" };
  const said = [kinds[box.kind] || box.kind, box.title, ...box.lines.slice(0, 8)];
  if (canFold(box)) said.push(`${box.count} inside`);
  return said.filter(Boolean).join(", ");
}

// Set the focused box. `focus` also moves the keyboard focus.
function moveTo(box, focus = false) {
  elements.get(at)?.setAttribute("tabindex", "-1");
  at = box;
  const element = elements.get(at);
  element?.setAttribute("tabindex", "0");
  if (focus) element?.focus({ preventScroll: true });
}

// Restore the focus after painting: to the same box, or to the box around it if it is hidden.
function painted(focused) {
  while (at && !elements.has(at)) at = at.parent;
  if (!at) at = model.boxes.find((box) => elements.has(box)) || null;
  moveTo(at, focused !== undefined);
  if (chosen) elements.get(chosen)?.classList.add("chosen");
  markHits();
  showRow();
}

const shown = () => [...picture.querySelectorAll("[data-box]")].map((each) => ends.get(Number(each.dataset.box)));

function go(box) {
  if (!box) return;
  moveTo(box, true);
  show(box, false);
}

async function step(key) {
  const order = shown();
  const place = order.indexOf(at);
  const inner = order[place + 1] && order[place + 1].parent === at ? order[place + 1] : null;
  if (key === "ArrowDown") go(order[place + 1]);
  if (key === "ArrowUp") go(order[place - 1]);
  if (key === "Home") go(order[0]);
  if (key === "End") go(order[order.length - 1]);
  if (key === "ArrowRight" && canFold(at) && !isOpen(at)) await toggle(at);
  else if (key === "ArrowRight") go(inner);
  if (key === "ArrowLeft" && canFold(at) && isOpen(at)) await toggle(at);
  else if (key === "ArrowLeft") go(at.parent);
}

const MOVES = ["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home", "End"];

function keys() {
  picture.addEventListener("keydown", async (event) => {
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    if (MOVES.includes(event.key)) {
      event.preventDefault();
      await step(event.key);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (event.key === " ") await toggle(at);
      else choose(at);
    }
  });
  addEventListener("keydown", (event) => {
    if (event.target.closest("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = {
      "/": () => byId("query").focus(),
      "0": fit,
      "+": () => zoom(1.25),
      "=": () => zoom(1.25),
      "-": () => zoom(0.8),
      "?": () => (byId("legend").hidden ? openLegend() : closeLegend()),
      Escape: () => { choose(null); closeLegend(); },
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
