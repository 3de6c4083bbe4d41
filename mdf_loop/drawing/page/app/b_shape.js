// Size of each box and positions of its ports, from the text widths that the browser measures.

const FONTS = {
  text: "11px Helvetica, Arial, 'DejaVu Sans', sans-serif",
  name: "700 11px Helvetica, Arial, 'DejaVu Sans', sans-serif",
  title: "700 13px Helvetica, Arial, 'DejaVu Sans', sans-serif",
  small: "9.5px Helvetica, Arial, 'DejaVu Sans', sans-serif",
};
const ROW = 36; // height of a terminal with a sign
const GAP = 4;
const PIN = 19; // height of a port without a sign
const BADGE = 22;
const HEAD = 40; // height of the title and the line below
const LANE = 7; // distance between two back edges
const LANES = 6;
const LINE = 15;

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

function widthOf(text, font) {
  const key = font + text;
  if (!widths.has(key)) {
    pen.font = FONTS[font];
    widths.set(key, Math.ceil(pen.measureText(text).width));
  }
  return widths.get(key);
}

const widest = (texts, font) => texts.reduce((most, text) => Math.max(most, widthOf(text, font)), 0);

function shapeOf(box) {
  if (box.inner || box.kind === "loop" || box.kind === "choice") return frameShape(box);
  return box.kind === "node" ? nodeShape(box) : wordShape(box);
}

// Shape of a small box: an operator or a run of operators, an input, a constant, a formula.
function wordShape(box) {
  const lines = box.kind === "formula" ? box.lines : [box.title, ...box.lines];
  const width = Math.max(widest(lines, "text"), widthOf(box.below, "small")) + 20;
  const height = lines.length * LINE + 9 + (box.below ? 11 : 0);
  return { width, height, lines, at: new Map() };
}

// Shape of a node: a header, ports on both sides, formulas.
function nodeShape(box) {
  const head = box.below ? 34 : 22;
  const left = widest(names(box.left), "text");
  const right = widest(names(box.right), "text");
  const rows = Math.max(box.left.length, box.right.length);
  const width = Math.max(
    widthOf(box.title, "name") + 24,
    widthOf(box.below, "small") + 16,
    left + right + 48,
    widest(box.lines, "text") + 18,
  );
  const top = head + 4;
  const at = new Map();
  for (const port of [...box.left, ...box.right]) {
    if (port) at.set(port.id, top + port.row * 18 + 9);
  }
  const height = top + rows * 18 + box.lines.length * 14 + 6;
  return { width, height, head, top, rows, at };
}

const names = (ports) => ports.filter(Boolean).map((port) => port.name);

// Shape of a frame: a title, rails of terminals on both sides, and if it is open, its inner scene between them.
function frameShape(box) {
  if (box.kind === "branch") return branchShape(box);
  const shown = isOpen(box);
  const lanes = shown ? Math.min(box.back.length, LANES) : 0;
  const head = headOf(box);
  const top = head + 6 + (lanes ? lanes * LANE + 8 : 0);
  const rows = Math.max(box.left.length, box.right.length);
  const signed = [...box.left, ...box.right].some((port) => port && port.kind);
  const step = signed ? ROW + GAP : PIN + 2;
  const rails = [railWidth(box.left), railWidth(box.right)];
  const at = new Map();
  for (const port of [...box.left, ...box.right]) {
    if (port) at.set(port.id, top + port.row * step + (step - (signed ? GAP : 2)) / 2);
  }
  const least = {
    width: Math.max(
      widthOf(box.title, "title") + 56,
      widthOf(closedText(box), "small") + 24,
      rails[0] + rails[1] + 60,
    ),
    height: top + rows * step + 10,
  };
  const through = shown ? box.inner.wires.filter((wire) => isThrough(wire, box)) : [];
  const gutter = 14 + Math.max(lanes, Math.min(through.length, LANES)) * 5;
  const bottom = 14 + through.length * LANE;
  return { ...least, least, head, top, bottom, step, rails, at, through, gutter, open: shown };
}

// A wire from the left rail directly to the right one is not part of the layout. It has a lane below.
function isThrough(wire, box) {
  return ends.get(wire.source).box === box && ends.get(wire.target).box === box;
}

function branchShape(box) {
  const least = { width: widthOf(box.title, "name") + 40, height: 50 };
  return { ...least, least, head: 26, top: 26, bottom: 14, through: [], rails: [0, 0], gutter: 16, at: new Map(), open: true };
}

const headOf = (box) => (closedText(box) ? HEAD : 28);

function railWidth(ports) {
  const wide = (port) =>
    Math.max(widthOf(port.name, "text"), widthOf(port.below, "small")) +
    (port.kind ? BADGE + 16 : port.name ? 14 : 0);
  return ports.filter(Boolean).reduce((most, port) => Math.max(most, wide(port)), 0);
}

function closedText(box) {
  if (isOpen(box) || !box.inner || box.kind === "group") return box.below;
  const inside = `${box.count} ${box.count === 1 ? "box" : "boxes"} inside`;
  return [box.below, inside].filter(Boolean).join(" · ");
}
