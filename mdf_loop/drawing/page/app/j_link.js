// Permalink: differences from the initial state and the selected box, behind the `#`.

const first = new Set(open);

function remember() {
  const parts = [];
  const opened = [...open].filter((box) => !first.has(box)).map((box) => box.id);
  const closed = [...first].filter((box) => !open.has(box)).map((box) => box.id);
  if (opened.length) parts.push(`open=${opened.join(".")}`);
  if (closed.length) parts.push(`fold=${closed.join(".")}`);
  if (chosen) parts.push(`box=${chosen.id}`);
  try {
    history.replaceState(null, "", `#${parts.join("&")}`);
  } catch {
    // A frame of a notebook has no address of its own.
  }
}

// Open the boxes in the link, and return the box that it selects, if any.
function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  const listed = (key) =>
    (said.get(key) || "").split(".").map((id) => ends.get(Number(id))).filter((box) => box && canFold(box));
  open.clear();
  for (const box of first) open.add(box);
  for (const box of listed("open")) open.add(box);
  for (const box of listed("fold")) open.delete(box);
  const box = ends.get(Number(said.get("box")));
  return box && !box.box ? box : null;
}

async function follow() {
  const box = recall();
  if (box) unveil(box);
  await refresh();
  if (box) {
    choose(box);
    moveTo(box);
    show(box);
  }
}
