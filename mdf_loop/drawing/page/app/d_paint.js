// SVG of the layout of elkjs. Texts of the model are only used as `textContent`.

const SVG = "http://www.w3.org/2000/svg";
let elements = new Map(); // box -> its <g>
let marks = new Map(); // number of a port or box -> its elements
let strokes = new Map(); // wire -> its <g>

function draw(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const write = (parent, x, y, text, kind = "") => draw("text", { x, y, class: kind }, parent, text);

function paint({ out, shapes, wires }) {
  elements = new Map();
  marks = new Map();
  strokes = new Map();
  const fresh = document.createDocumentFragment();
  paintScene(out, null, fresh, shapes, wires);
  byId("world").replaceChildren(fresh);
}

// Paint the wires of a scene, then its boxes in reading order. `frame` is the shape around it, with its rails.
function paintScene(node, frame, parent, shapes, wires) {
  for (const edge of node.edges || []) paintWire(edge, wires.get(edge.id), frame, parent);
  const children = [...(node.children || [])].sort((a, b) => a.x - b.x || a.y - b.y);
  for (const child of children) {
    if (child.id.startsWith("i")) {
      const block = draw("g", { transform: `translate(${child.x},${child.y})` }, parent);
      paintScene(child, null, block, shapes, wires);
      continue;
    }
    const box = ends.get(Number(child.id.slice(1)));
    paintBox(child, box, parent, shapes, wires);
  }
}

function paintBox(node, box, parent, shapes, wires) {
  const shape = Object.assign(shapes.get(box), { width: node.width, height: node.height });
  const deep = box.kind === "loop" ? ` deep-${box.depth % 3}` : "";
  const group = draw("g", {
    class: `box ${box.kind}${deep}`,
    transform: `translate(${node.x},${node.y})`,
    role: "treeitem",
    tabindex: -1,
    "data-box": box.id,
    "aria-level": box.depth + 1,
    "aria-label": spoken(box),
  }, parent);
  if (canFold(box)) group.setAttribute("aria-expanded", String(isOpen(box)));
  elements.set(box, group);
  put(marks, box.id, group);
  draw("rect", { class: "card", width: shape.width, height: shape.height, rx: corner(box) }, group);
  if (box.kind === "node") paintNode(box, shape, group);
  else if (shape.least) paintFrame(node, box, shape, group, shapes, wires);
  else paintWords(box, shape, group);
}

const corner = (box) =>
  ({ input: 12, output: 12, passed: 12, loop: 9, choice: 0, branch: 0 })[box.kind] ?? 4;

function paintWords(box, shape, group) {
  shape.lines.forEach((line, k) => write(group, shape.width / 2, 16 + k * LINE, line, "middle"));
  if (box.below) {
    write(group, shape.width / 2, 16 + shape.lines.length * LINE - 2, box.below, "small middle");
  }
}

function paintNode(box, shape, group) {
  const { width, head, top, rows } = shape;
  draw("rect", { class: "head", x: 1, y: 1, width: width - 2, height: head - 1, rx: 3 }, group);
  write(group, width / 2, 15, box.title, "name middle");
  if (box.below) write(group, width / 2, 28, box.below, "small middle");
  for (const port of box.left) paintPort(port, 7, shape, group, "");
  for (const port of box.right) paintPort(port, width - 7, shape, group, "end");
  box.lines.forEach((line, k) => {
    write(group, width / 2, top + rows * 18 + 11 + k * 14, line, "middle");
  });
}

function paintPort(port, x, shape, group, kind) {
  const y = shape.at.get(port.id);
  const half = shape.width / 2;
  const mark = draw("g", { "data-end": port.id }, group);
  const start = port.side === "left" ? 0 : half;
  draw("rect", { class: "ground", x: start, y: y - 9, width: half, height: 18 }, mark);
  write(mark, x, y + 4, port.side === "left" ? `▸ ${port.name}` : `${port.name} ▸`, kind);
  put(marks, port.id, mark);
}

// --- frames ------------------------------------------------------------------------------------

function paintFrame(node, box, shape, group, shapes, wires) {
  const title = draw("g", { class: canFold(box) ? "fold" : "" }, group);
  draw("rect", { class: "ground", width: shape.width, height: shape.head - 4 }, title);
  const sign = canFold(box) ? (isOpen(box) ? "▾ " : "▸ ") : "";
  write(title, 10, 18, sign + box.title, box.kind === "branch" ? "name" : "title");
  if (box.kind !== "branch") write(title, 10, 32, closedText(box), "small");
  if (shape.open) {
    paintBack(box, shape, group);
    paintThrough(shape, group);
  }
  for (const port of [...box.left, ...box.right]) {
    if (port && (port.name || port.kind)) paintTerminal(port, shape, group);
  }
  if (!shape.open) return;
  const inside = draw("g", { role: "group" }, group);
  paintScene(node, shape, inside, shapes, wires);
}

function paintTerminal(port, shape, group) {
  const isLeft = port.side === "left";
  const width = shape.rails[isLeft ? 0 : 1];
  const x = isLeft ? 0 : shape.width - width;
  const y = shape.at.get(port.id);
  const high = port.kind ? ROW : PIN;
  const mark = draw("g", { "data-end": port.id }, group);
  put(marks, port.id, mark);
  draw("rect", { class: "chip", x, y: y - high / 2, width, height: high }, mark);
  const inner = port.kind ? BADGE + 6 : 7;
  const at = isLeft ? x + width - inner : x + inner;
  const side = isLeft ? "end" : "";
  write(mark, at, port.below ? y - 3 : y + 4, port.name, side);
  if (port.below) write(mark, at, y + 10, port.below, `small ${side}`);
  if (port.kind) paintSign(port.kind, isLeft ? x + width - BADGE : x, y - high / 2, high, mark);
}

function paintSign(kind, x, y, high, parent) {
  const [sign, ground, ink] = DATA.marks[kind];
  draw("rect", { x, y, width: BADGE, height: high, fill: ground, stroke: "#57606a" }, parent);
  const text = write(parent, x + BADGE / 2, y + high / 2 + 4, sign, "sign");
  text.style.fill = ink;
}

// Paint the wire of each carried value from the right rail above the body to the left rail, on its own lane.
function paintBack(box, shape, group) {
  box.back.forEach((wire, k) => {
    const lane = Math.min(k, LANES - 1);
    const [left, right] = [shape.rails[0], shape.width - shape.rails[1]];
    const [from, to] = [shape.at.get(wire.source), shape.at.get(wire.target)];
    if (from === undefined || to === undefined) return;
    const near = 8 + lane * 5;
    const high = shape.head + 8 + lane * LANE;
    const path = `M${right} ${from}H${right - near}V${high}H${left + near}V${to}H${left + 1}`;
    const label = !k || wire.label !== box.back[k - 1].label ? wire.label : "";
    paintPath(wire, path, group);
    if (label) write(group, shape.width / 2 + k * 28, high - 3, label, "small back middle");
  });
}

// Paint wires from the left rail directly to the right one below the body.
function paintThrough(shape, group) {
  shape.through.filter(isShown).forEach((wire, k) => {
    const [left, right] = [shape.rails[0], shape.width - shape.rails[1]];
    const [from, to] = [shape.at.get(wire.source), shape.at.get(wire.target)];
    const near = 8 + Math.min(k, LANES - 1) * 5;
    const low = shape.height - 8 - k * LANE;
    paintPath(wire, `M${left} ${from}H${left + near}V${low}H${right - near}V${to}H${right}`, group);
  });
}

// --- wires -------------------------------------------------------------------------------------

function paintWire(edge, wire, frame, parent) {
  for (const section of edge.sections || []) {
    const points = [section.startPoint, ...(section.bendPoints || []), section.endPoint];
    const path = points.map((point) => offRail(point, frame));
    paintPath(wire, path.map(({ x, y }, k) => `${k ? "L" : "M"}${x} ${y}`).join(""), parent);
    if (wire.label) {
      const { x, y } = path[Math.floor((path.length - 1) / 2)];
      write(parent, x + 5, y - 4, wire.label, `small ${wire.kind}`);
    }
  }
}

// elkjs ends a wire at the side of the frame. The picture extends it to the rail.
function offRail({ x, y }, frame) {
  if (!frame) return { x, y };
  const [left, right] = frame.rails;
  return { x: Math.min(Math.max(x, left), frame.width - right), y };
}

function paintPath(wire, path, parent) {
  const group = draw("g", { "data-wire": "" }, parent);
  group.wire = wire;
  draw("path", { d: path, class: "touch" }, group);
  const stroke = draw("path", { d: path, class: `wire ${wire.kind}` }, group);
  if (wire.kind === "joint") put(marks, wire.source, group);
  const isOnItsWay = wire.kind === "joint" && ends.get(wire.source).side === "left";
  if (!isOnItsWay) stroke.setAttribute("marker-end", "url(#arrow)");
  strokes.set(wire, group);
}
