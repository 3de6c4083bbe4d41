// Export: an SVG file, and printing.

// Return the picture as a separate file with styles and current colours.
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

// Return the rules with current colours in place of variables, which some SVG viewers do not support.
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

// Print the whole picture, independent of the view.
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
