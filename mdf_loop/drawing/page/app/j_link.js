// The permalink: what differs from the first sight, and which box is chosen, behind the `#`.

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
    // A frame of a notebook has no place of its own to link to.
  }
}

// Opens what the link says; the box that it chooses, if it does.
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
