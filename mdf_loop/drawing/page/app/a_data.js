// Data of the model from Python, with boxes, ports and wires as objects that refer to each other.
// Names are only displayed. All lookups are by number.

const DATA = JSON.parse(byId("data").textContent);
const ends = new Map(); // number -> box or port
const sent = new Map(); // number -> wires that begin there
const received = new Map(); // number -> wires that end there
const boxes = []; // all boxes, outer ones before inner ones

function byId(id) {
  return document.getElementById(id);
}

function readScene(data, parent) {
  const scene = { boxes: [], wires: [] };
  for (const given of data.b) scene.boxes.push(readBox(given, parent));
  for (const given of data.w) scene.wires.push(readWire(given, parent));
  return scene;
}

function readBox(given, parent) {
  const box = {
    id: given.i,
    kind: given.k,
    title: given.t || "",
    below: given.s || "",
    lines: given.x || [],
    details: given.d || [],
    path: given.p || "",
    parent,
    depth: parent ? parent.depth + 1 : 0,
  };
  boxes.push(box);
  ends.set(box.id, box);
  box.left = (given.L || []).map((port, row) => readPort(port, box, "left", row));
  box.right = (given.R || []).map((port, row) => readPort(port, box, "right", row));
  box.back = (given.z || []).map((wire) => readWire(wire, box));
  box.inner = given.g ? readScene(given.g, box) : null;
  box.count = box.inner ? box.inner.boxes.reduce((sum, each) => sum + 1 + each.count, 0) : 0;
  return box;
}

function readPort(given, box, side, row) {
  if (!given) return null;
  const [id, name, below, kind, passes] = given;
  const port = { id, name, below, kind, passes: Boolean(passes), box, side, row };
  ends.set(id, port);
  return port;
}

function readWire([source, target, kind, label], parent) {
  const wire = { source, target, kind, label, parent };
  put(sent, source, wire);
  put(received, target, wire);
  return wire;
}

function put(map, key, value) {
  if (map.has(key)) map.get(key).push(value);
  else map.set(key, [value]);
}

const model = readScene(DATA.g, null);

// A branch is open with its choice. All other boxes with an inner scene can be folded.
const canFold = (box) => Boolean(box.inner) && box.kind !== "branch";
const isOpen = (box) => Boolean(box.inner) && (box.kind === "branch" || open.has(box));
const open = new Set(DATA.open.map((id) => ends.get(id)));

function boxOf(end) {
  const found = ends.get(end);
  return found && (found.box || found);
}

// Return the display name of an end: `cell.x`.
function nameOf(end) {
  const found = ends.get(end);
  if (!found) return "";
  return found.box ? [found.box.title, found.name].filter(Boolean).join(" · ") : found.title;
}
