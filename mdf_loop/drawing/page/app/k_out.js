// Out of the page: an SVG file, paper.

// The picture as a file of its own: with the styles, and colours as they are now.
function svgText() {
  const copy = picture.cloneNode(true);
  const [width, height] = [size.width + 2 * MARGIN, size.height + 2 * MARGIN];
  copy.querySelector("#world").setAttribute("transform", `translate(${MARGIN},${MARGIN})`);
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  for (const each of copy.querySelectorAll(".touch, .pulse")) each.remove();
  for (const each of copy.querySelectorAll(".lit, .hit, .chosen")) {
    each.classList.remove("lit", "hit", "chosen");
  }
  const style = document.createElementNS(SVG, "style");
  style.textContent = resolved(byId("picture-style").textContent);
  copy.prepend(style);
  const ground = draw("rect", { width, height, fill: colour("--paper") });
  copy.insertBefore(ground, copy.querySelector("#world"));
  return new XMLSerializer().serializeToString(copy);
}

// The rules with the colours of this moment: not every reader of SVG knows variables.
function resolved(rules) {
  const rest = rules.slice(rules.indexOf("}") + 1);
  return rest.replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => colour(name));
}

function colour(name) {
  const probe = element("i", "", document.body);
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function save() {
  const file = new Blob([svgText()], { type: "image/svg+xml" });
  const link = element("a", "", null, { download: `${DATA.file}.svg` });
  link.href = URL.createObjectURL(file);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// On paper the whole picture, whatever part of it is looked at.
function printing() {
  addEventListener("beforeprint", () => {
    world.setAttribute("transform", "");
    picture.setAttribute("viewBox", `-8 -8 ${size.width + 16} ${size.height + 16}`);
  });
  addEventListener("afterprint", () => {
    picture.removeAttribute("viewBox");
    look();
  });
}

function theme() {
  const dark = getComputedStyle(document.documentElement).colorScheme;
  const isDark = dark === "dark" || (dark !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.style.colorScheme = isDark ? "light" : "dark";
}
