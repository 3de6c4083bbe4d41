// Entry point of the page.

// Show the texts about the model and its run.
function said() {
  return [DATA.said, DATA.run?.said].filter(Boolean).join(" · ");
}

async function main() {
  byId("name").textContent = DATA.title;
  byId("name").title = said();
  document.title = DATA.title;
  const on = (id, action) => byId(id).addEventListener("click", () => action());
  on("unfold", openAll);
  on("fold", foldAll);
  on("fit", fit);
  on("zoom-in", () => zoom(1.25));
  on("zoom-out", () => zoom(0.8));
  on("legend-button", () => (byId("legend").hidden ? openLegend() : closeLegend()));
  on("save", save);
  on("print", () => window.print());
  on("theme", theme);
  legend();
  searching();
  keys();
  hover();
  printing();
  replay();
  handle();
  await startWorker();
  addEventListener("hashchange", follow);
  await follow();
  byId("busy").hidden = true;
  rehearse();
}

main().catch((error) => {
  byId("busy").textContent = `this page cannot be laid out here: ${error.message}`;
  document.body.dataset.ready = "failed";
});
