// Panels beside the picture: the details of the selected box, and the legend.

let chosen = null;

function element(name, text, parent, attributes = {}) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (parent) parent.append(made);
  return made;
}

function choose(box) {
  for (const each of document.querySelectorAll("#world .chosen")) each.classList.remove("chosen");
  chosen = box;
  const panel = byId("details");
  panel.hidden = !box;
  if (box) {
    elements.get(box)?.classList.add("chosen");
    closeLegend();
    panel.replaceChildren(...detailsOf(box));
  }
  remember();
}

function detailsOf(box) {
  const list = element("dl");
  const say = (what, text) => {
    if (what !== said) element("dt", what || "computes", list);
    element("dd", text, list).classList.toggle("code", what === "code");
    said = what;
  };
  let said = null;
  for (const [what, text] of [...box.details, ...runDetails(box)]) say(what, text);
  if (box.path) say("path", box.path);
  const traced = [...box.left, ...box.right, box].filter(Boolean).flatMap(({ id }) => traces(id));
  return [closing(() => choose(null)), element("h2", box.title), list, ...traced];
}

function closing(action) {
  const button = element("button", "×", null, { class: "close", type: "button", "aria-label": "Close" });
  button.addEventListener("click", action);
  return button;
}

const KEYS = [
  ["↑ ↓", "box before, after"],
  ["→ ←", "open or go in, fold or go out"],
  ["Enter", "details"],
  ["Space", "fold, unfold"],
  ["/", "search; Enter goes on to the next"],
  ["+ − 0", "zoom, fit"],
  ["Esc", "close"],
];

function legend() {
  const panel = byId("legend");
  const list = element("ul");
  const shown = new Set([...ends.values()].map((end) => end.box && end.kind).filter(Boolean));
  for (const kind of Object.keys(DATA.marks)) {
    if (!shown.has(kind)) continue;
    const item = element("li", "", list);
    const sign = draw("svg", { width: BADGE, height: 18, "aria-hidden": "true" }, item);
    paintSign(kind, 0, 0, 18, sign);
    element("span", DATA.marks[kind][3], item);
  }
  const kinds = new Set([...sent.values()].flat().map((wire) => wire.kind));
  for (const box of boxes) for (const wire of box.back) kinds.add(wire.kind);
  for (const [kind, words] of Object.entries(DATA.strokes)) {
    if (!kinds.has(kind)) continue;
    const item = element("li", "", list);
    const sample = draw("svg", { width: 34, height: 10, "aria-hidden": "true" }, item);
    draw("path", { d: "M1 5H32", class: `wire ${kind}`, "marker-end": "url(#arrow)" }, sample);
    element("span", words, item);
  }
  const keys = element("ul");
  for (const [key, words] of KEYS) {
    const item = element("li", "", keys);
    element("kbd", key, item);
    element("span", words, item);
  }
  const label = element("label", "");
  const toggle = element("input", "", label, { type: "checkbox", id: "captures" });
  toggle.checked = captures;
  label.append(" wires of captured values");
  toggle.addEventListener("change", () => {
    captures = toggle.checked;
    refresh(boxes[0]);
  });
  const about = [said(), DATA.about].filter(Boolean).map((text) => element("p", text));
  panel.replaceChildren(
    closing(closeLegend), element("h2", "Legend"), list, label,
    element("h3", "Keys"), keys, element("h3", "This page"), ...about,
  );
}

function openLegend() {
  choose(null);
  byId("legend").hidden = false;
  byId("legend-button").setAttribute("aria-expanded", "true");
}

function closeLegend() {
  byId("legend").hidden = true;
  byId("legend-button").setAttribute("aria-expanded", "false");
}
