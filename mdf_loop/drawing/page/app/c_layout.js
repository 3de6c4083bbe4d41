// Graph of the open part of the model for elkjs, and the worker in which elkjs lays it out.
// Every frame has its own layout. A value that crosses its side passes a port.

const LAYERED = {
  "elk.algorithm": "layered",
  "elk.direction": "RIGHT",
  "elk.hierarchyHandling": "SEPARATE_CHILDREN",
  "elk.spacing.nodeNode": "18",
  "elk.spacing.edgeNode": "12",
  "elk.spacing.edgeEdge": "8",
  "elk.layered.spacing.nodeNodeBetweenLayers": "36",
  "elk.layered.spacing.edgeNodeBetweenLayers": "14",
  "elk.layered.spacing.edgeEdgeBetweenLayers": "8",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  "elk.layered.considerModelOrder.strategy": "PREFER_NODES",
};
const WRAPPED = {
  "elk.layered.wrapping.strategy": "MULTI_EDGE",
  "elk.layered.wrapping.additionalEdgeSpacing": "14",
  "elk.layered.wrapping.correctionFactor": "1.2",
};
const WRAP_FROM = 10; // number of boxes side by side from which several rows are possible

const elkId = (end) => (ends.get(end).box ? `p${end}` : `b${end}`);

// Convert boxes and wires of a scene to a node of elkjs. `name` returns the name of an end there.
function elkScene(scene, shapes, target, aspect, name = elkId) {
  target.children = scene.boxes.map((box) => elkBox(box, shapes, aspect));
  target.edges = scene.wires
    .filter((wire) => wire.source !== wire.target && isShown(wire) && !isThrough(wire, wire.parent))
    .map((wire) => elkEdge(wire, name(wire.source), name(wire.target)));
  return target;
}

function elkEdge(wire, source, target) {
  const id = `w${wires.size}`;
  wires.set(id, wire);
  return { id, sources: [source], targets: [target] };
}

const isShown = (wire) => captures || wire.kind !== "capture";

function elkBox(box, shapes, aspect) {
  const shape = shapeOf(box);
  shapes.set(box, shape);
  const node = { id: `b${box.id}`, ports: elkPorts(box, shape), layoutOptions: {} };
  const sides = box.kind === "branch" ? "FIXED_SIDE" : "FIXED_POS";
  if (node.ports.length) node.layoutOptions["elk.portConstraints"] = sides;
  if (!shape.open) return { ...node, width: shape.width, height: shape.height };
  const [left, right] = shape.rails.map((rail) => rail + shape.gutter);
  const [width, height] = [shape.least.width, shape.least.height + shape.bottom - 14];
  Object.assign(node.layoutOptions, LAYERED, {
    "elk.padding": `[top=${shape.top},left=${left},right=${right},bottom=${shape.bottom}]`,
    "elk.nodeSize.constraints": "MINIMUM_SIZE",
    "elk.nodeSize.minimum": `(${width},${height})`,
  });
  if (isWrapped(box.inner)) return elkWrapped(box, shapes, node, aspect);
  return elkScene(box.inner, shapes, node, aspect);
}

const isWrapped = (scene) => scene.boxes.length >= WRAP_FROM;
const wrapping = (aspect) => ({ ...WRAPPED, "elk.aspectRatio": String(aspect) });

// elkjs moves the ports of a frame with wrapped rows. Therefore the rows are in an invisible block
// with its own ports, and a wire from a rail is split into one to the block and one inside it.
function elkWrapped(box, shapes, node, aspect) {
  const gates = new Map();
  const name = (end) => {
    const port = ends.get(end);
    if (port.box !== box) return elkId(end);
    gates.set(end, port);
    return `q${end}`;
  };
  const block = { id: `i${box.id}`, layoutOptions: { ...LAYERED, ...wrapping(aspect) } };
  block.layoutOptions["elk.portConstraints"] = "FIXED_SIDE";
  block.layoutOptions["elk.padding"] = "[top=4,left=4,right=4,bottom=4]";
  elkScene(box.inner, shapes, block, aspect, name);
  block.ports = [...gates].map(([end, { side }]) => ({
    id: `q${end}`,
    layoutOptions: { "elk.port.side": side === "left" ? "WEST" : "EAST" },
  }));
  node.children = [block];
  node.edges = [...gates].map(([end, { side }]) => {
    const joint = { source: end, target: end, kind: "joint", label: "", parent: box };
    return side === "left" ? elkEdge(joint, `p${end}`, `q${end}`) : elkEdge(joint, `q${end}`, `p${end}`);
  });
  return node;
}

// Ports are at the rails. An open frame has no width yet, so its right side is also 0.
function elkPorts(box, shape) {
  const placed = (port, x) => ({
    id: `p${port.id}`,
    x,
    y: shape.at.get(port.id) || 0,
    layoutOptions: { "elk.port.side": port.side === "left" ? "WEST" : "EAST" },
  });
  return [
    ...box.left.filter(Boolean).map((port) => placed(port, 0)),
    ...box.right.filter(Boolean).map((port) => placed(port, shape.open ? 0 : shape.width)),
  ];
}

// --- the worker --------------------------------------------------------------------------------

let asked = 0;
const answers = new Map();
let worker = null;

async function inflated(element) {
  const letters = atob(element.textContent);
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).blob();
}

async function startWorker() {
  const code = new Blob([await inflated(byId("elk"))], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(code));
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = answers.get(data.id);
    answers.delete(data.id);
    if (data.error) reject(new Error(data.error.message || String(data.error)));
    else resolve(data.data);
  };
  worker.onerror = (event) => {
    for (const { reject } of answers.values()) reject(new Error(event.message || "no worker"));
    answers.clear();
  };
  await ask({ cmd: "register", algorithms: ["layered"] });
}

function ask(message) {
  return new Promise((resolve, reject) => {
    asked += 1;
    answers.set(asked, { resolve, reject });
    worker.postMessage({ ...message, id: asked });
  });
}

let wires = new Map(); // name of an edge of elkjs -> wire
let latest = null; // the latest graph that elkjs received

// Lay out the open boxes: {out: graph with positions, shapes: by box, wires: by edge}.
async function placed(aspect) {
  const shapes = new Map();
  wires = new Map();
  const rows = isWrapped(model) ? wrapping(aspect) : {};
  const root = { id: "root", layoutOptions: { ...LAYERED, ...rows } };
  const graph = elkScene(model, shapes, root, aspect);
  const drawn = wires;
  latest = { cmd: "layout", graph, layoutOptions: {}, options: {} };
  const out = await ask(latest);
  return { out, shapes, wires: drawn };
}

const ROUNDS = 2;
const PAUSE = 800; // milliseconds without an action of the reader

// A browser compiles code that has run a few times. While nobody waits, elkjs repeats the current layout,
// so that the first fold takes half as long. The results are discarded. The repetition ends with the first action.
async function rehearse() {
  for (let round = 0, seen = asked; round < ROUNDS; round += 1, seen += 1) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (asked !== seen) return;
    await ask(latest);
  }
}
