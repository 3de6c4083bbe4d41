// Results of a run: values at their sources, and a slider over the recorded rows.

const RUN = DATA.run;
const TRACE = { width: 260, height: 64 };
const tapes = RUN ? RUN.tapes.map(readTape) : [];
const lasts = new Map(RUN ? RUN.values : []);
const wentBy = new Map(RUN ? RUN.loops : []);
let tape = tapes[0] || null;
let row = 0;

function readTape({ label, frame, unit, at, places, series }) {
  const rowOf = new Map(places.map((place, k) => [place, k]));
  const found = { label, frame: ends.get(frame) || null, unit, at, rowOf, numbers: places, places: new Map() };
  for (const [end, name, itsUnit, size, rows] of series) {
    spread(found, end, { name, unit: itsUnit, size, rows, back: 0 });
  }
  return found;
}

// A recorded value also appears at its source, at all its readers, and one row later where it enters.
function spread(tape, end, series) {
  const waiting = [[end, series]];
  for (let place = end, isFirst = Boolean(tape.frame); isFirst || ends.get(place).passes; isFirst = false) {
    const brought = (received.get(place) || []).filter((wire) => belongs(wire.source, tape.frame));
    if (brought.length !== 1) break;
    place = brought[0].source;
    waiting.push([place, series]);
  }
  while (waiting.length) {
    const [place, value] = waiting.pop();
    if (tape.places.has(place) || !belongs(place, tape.frame)) continue;
    tape.places.set(place, value);
    for (const wire of (sent.get(place) || []).filter((each) => !isFirstOnly(each))) {
      if (wire.kind === "back" && wire.parent !== tape.frame) continue;
      const later = wire.kind === "back" || wire.kind === "feedback";
      waiting.push([wire.target, later ? { ...value, back: value.back + backOf(wire) } : value]);
    }
  }
}

// A value that enters a terminal of an inner loop is its initial value, not its current value.
function isFirstOnly({ target, parent }) {
  const port = ends.get(target);
  return Boolean(port.kind && port.box && port.side === "left" && !port.passes && port.box !== parent);
}

function backOf(wire) {
  return Number(/^t\+(\d+)$/.exec(wire.label)?.[1] || 1);
}

function belongs(end, frame) {
  const box = boxOf(end);
  return !frame || box === frame || isInside(box, frame);
}

// --- texts -------------------------------------------------------------------------------------

function valueAtRow(end) {
  const series = tape?.places.get(end);
  const numbers = series?.rows[tape.rowOf.get(tape.numbers[row] - series.back)];
  return numbers ? written(numbers, series) : "";
}

function written(numbers, { size, unit }) {
  const shown = numbers.map((number) => (number === null ? "?" : String(Number(number.toPrecision(4)))));
  const more = size > numbers.length ? ", …" : "";
  const text = size === 1 ? shown[0] : `[${shown.join(", ")}${more}]`;
  return unit ? `${text} ${unit}` : text;
}

function valueText(end) {
  const now = valueAtRow(end);
  if (now) return `= ${now}`;
  return lasts.has(end) ? `= ${lasts.get(end)}` : "";
}

function runDetails(box) {
  const found = [];
  if (wentBy.has(box.id)) found.push(["run", wentBy.get(box.id)]);
  for (const port of [...box.left, ...box.right, box]) {
    if (port && valueText(port.id)) found.push(["value", `${port.name ?? box.title} ${valueText(port.id)}`]);
  }
  return found;
}

// Return the rows of an end as a small line for each number, with a mark at the current row.
function traces(end) {
  const series = tape?.places.get(end);
  if (!series || series.rows.length < 2) return [];
  const { width, height } = TRACE;
  const known = series.rows.flat().filter((number) => number !== null);
  if (!known.length) return [];
  const [least, most] = known.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  const x = (k) => (k / (series.rows.length - 1)) * width;
  const y = (number) => 4 + (1 - (number - least) / (most - least || 1)) * (height - 8);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `rows of ${series.name}` });
  for (let k = 0; k < series.rows[0].length; k += 1) {
    const points = series.rows.map((numbers, at) => (numbers[k] === null ? "" : `${x(at)},${y(numbers[k])}`));
    draw("polyline", { points: points.filter(Boolean).join(" "), class: `trace trace-${k}` }, svg);
  }
  const now = x(Math.max(0, row - series.back));
  draw("path", { d: `M${now} 0V${height}`, class: "trace-now" }, svg);
  return [svg];
}

// --- in the picture ----------------------------------------------------------------------------

function showRow() {
  for (const each of document.querySelectorAll("#world text.value")) each.remove();
  for (const each of document.querySelectorAll("#world .replaced")) each.classList.remove("replaced");
  for (const [box, element] of elements) if (wentBy.has(box.id)) showLoop(box, element);
  const places = new Set([...(tape ? tape.places.keys() : []), ...lasts.keys()]);
  for (const end of places) for (const mark of marks.get(end) || []) showValue(end, mark);
  if (tape) {
    byId("row").textContent = `${tape.label} ${tape.at[row] ?? "?"}${tape.unit}`;
    byId("rows").value = row;
  }
}

function showLoop(box, element) {
  const said = element.querySelector(":scope > .fold > text.small");
  if (said) said.textContent = `${closedText(box)} · ${wentBy.get(box.id)}`;
}

// Position of a value: at a terminal in place of the line below its name, beside a node above its wire.
function showValue(end, mark) {
  const text = valueText(end).slice(0, 44);
  if (!text) return;
  const { box, side, kind } = ends.get(end);
  if (!box) return; // a whole box shows no value
  const below = mark.querySelector(":scope > text.small");
  if (below) {
    below.classList.add("replaced");
    const align = below.classList.contains("end") ? "end" : "";
    write(mark, below.getAttribute("x"), below.getAttribute("y"), text, `value ${align}`);
  } else if (kind) {
    const name = mark.querySelector(":scope > text");
    const lower = Number(name.getAttribute("y")) + 11;
    write(mark, name.getAttribute("x"), lower, text, `value ${name.getAttribute("class")}`);
  } else if (box.kind === "node") {
    const ground = mark.querySelector(".ground");
    const y = Number(ground.getAttribute("y")) + 4;
    const right = Number(ground.getAttribute("x")) + Number(ground.getAttribute("width"));
    if (side === "right") write(mark, right + 6, y, text, "value");
  }
}

// --- the slider --------------------------------------------------------------------------------

let playing = 0;
const pace = () => Math.max(30, Math.min(450, 20000 / tape.at.length));

function setRow(to) {
  row = Math.max(0, Math.min(tape.at.length - 1, to));
  showRow();
}

function replay() {
  if (!tape) return;
  const panel = byId("replay");
  const play = element("button", "▶", panel, { id: "play", type: "button", "aria-label": "Play the rows" });
  if (tapes.length > 1) panel.append(chooser());
  const slider = element("input", "", panel, { id: "rows", type: "range", min: 0, step: 1, "aria-label": "Recorded row" });
  slider.max = tape.at.length - 1;
  element("output", "", panel, { id: "row", for: "rows" });
  panel.hidden = false;
  setRow(tape.at.length - 1);
  slider.addEventListener("input", () => setRow(Number(slider.value)));
  play.addEventListener("click", () => (playing ? pause() : start()));
}

function chooser() {
  const list = element("select", "", null, { "aria-label": "What was recorded" });
  tapes.forEach(({ label }, k) => element("option", label, list, { value: k }));
  list.addEventListener("change", () => {
    pause();
    tape = tapes[Number(list.value)];
    byId("rows").max = tape.at.length - 1;
    setRow(tape.at.length - 1);
  });
  return list;
}

function start() {
  if (row >= tape.at.length - 1) setRow(0);
  byId("play").textContent = "❚❚";
  let since = performance.now();
  const tick = (now) => {
    if (!playing) return;
    const rows = Math.floor((now - since) / pace());
    if (rows) {
      since += rows * pace();
      setRow(row + rows);
    }
    pulses(Math.min(1, (now - since) / pace()));
    playing = row < tape.at.length - 1 ? requestAnimationFrame(tick) : 0;
    if (!playing) pause();
  };
  playing = requestAnimationFrame(tick);
}

function pause() {
  cancelAnimationFrame(playing);
  playing = 0;
  byId("play").textContent = "▶";
  for (const each of document.querySelectorAll(".pulse")) each.remove();
}

// Paint a dot on each wire that carries a recorded value. Its position shows the age of the row.
function pulses(part) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const [wire, stroke] of strokes) {
    if (!tape.places.has(wire.source) || !tape.places.has(wire.target)) continue;
    const path = stroke.querySelector(".wire");
    const { x, y } = path.getPointAtLength(part * path.getTotalLength());
    const dot = stroke.querySelector(".pulse") || draw("circle", { class: "pulse", r: 4 }, stroke);
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", y);
  }
}
