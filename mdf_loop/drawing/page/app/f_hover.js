// Highlighting of all wires that carry one value, across frames and groups.

// Return the wires of the value at an end: back to its source, and forward to all readers.
function valueAt(end) {
  let source = end;
  const seen = new Set();
  while (!seen.has(source)) {
    seen.add(source);
    const found = ends.get(source);
    const before = received.get(source) || [];
    const isGiven = found.box && (found.passes || found.side === "left") && isOuter(found, before);
    if (!isGiven) break;
    source = before[0].source;
  }
  return carried(source, end);
}

// A left port of a node receives a value. A terminal at which a new value begins is its source.
function isOuter(port, before) {
  return before.length === 1 && (port.passes || !sent.has(port.id));
}

function carried(source, end) {
  const found = { wires: new Set(), ends: new Set([source, end]) };
  const waiting = [source];
  while (waiting.length) {
    for (const wire of sent.get(waiting.pop()) || []) {
      if (found.wires.has(wire) || wire.kind === "back") continue;
      found.wires.add(wire);
      found.ends.add(wire.target);
      if (ends.get(wire.target).passes) waiting.push(wire.target);
    }
  }
  return found;
}

// Return all wires that end or begin at a box.
function around(box) {
  const found = { wires: new Set(), ends: new Set() };
  const inside = (wire) => wire.parent === box;
  const own = [box.id, ...[...box.left, ...box.right].filter(Boolean).map((port) => port.id)];
  for (const end of own) {
    for (const wire of [...(sent.get(end) || []), ...(received.get(end) || [])]) {
      if (!inside(wire)) found.wires.add(wire);
    }
  }
  return found;
}

function light(found) {
  for (const element of document.querySelectorAll("#world .lit")) element.classList.remove("lit");
  if (!found) return;
  for (const wire of found.wires) strokes.get(wire)?.classList.add("lit");
  for (const end of found.ends) {
    if (ends.get(end).box) for (const mark of marks.get(end) || []) mark.classList.add("lit");
  }
}

function hover() {
  picture.addEventListener("pointerover", (event) => {
    const { found, end } = under(event.target);
    light(found);
    tip(end, event);
  });
  picture.addEventListener("pointerleave", () => {
    light(null);
    tip(null);
  });
}

function under(target) {
  const wire = target.closest("[data-wire]")?.wire;
  if (wire) {
    const found = valueAt(wire.source);
    found.wires.add(wire);
    return { found, end: wire.source };
  }
  const port = target.closest("[data-end]");
  if (port) return { found: valueAt(Number(port.dataset.end)), end: Number(port.dataset.end) };
  const box = ends.get(Number(target.closest("[data-box]")?.dataset.box));
  return { found: box && !box.inner ? around(box) : null, end: box && !box.inner ? box.id : null };
}

function tip(end, event) {
  const element = byId("tip");
  const said = end === null || end === undefined ? "" : tipText(end);
  element.hidden = !said;
  if (!said) return;
  element.replaceChildren(said, ...traces(end));
  const { clientWidth, clientHeight } = document.documentElement;
  const { width, height } = element.getBoundingClientRect();
  element.style.left = `${Math.max(4, Math.min(event.clientX + 14, clientWidth - width - 6))}px`;
  element.style.top = `${Math.max(4, Math.min(event.clientY + 16, clientHeight - height - 6))}px`;
}

function tipText(end) {
  const found = ends.get(end);
  const port = found.box ? found : null;
  const readers = valueAt(end).ends;
  readers.delete(end);
  const to = [...readers].map(nameOf).filter(Boolean).slice(0, 6);
  const said = [nameOf(end), port?.below, valueText(end)];
  if (to.length) said.push(`with ${to.join(", ")}`);
  return said.filter(Boolean).join("\n");
}
