// A graph in layers. Python says which layer each node is in and in which order (layers.py); here
// boxes get sizes and places, which depend on the groups that are open. Only what is in view is in
// the page: a box each, and one path for all lines.
const LINE = 7.3; // a character, px
const TALL = 26;
const NOTE = 15; // more, for a line below the name
const APART = 18; // between boxes
const BETWEEN = 38; // between layers
const INSET = 12; // of a group's inside
const SCALES = [0.25, 0.35, 0.5, 0.7, 1, 1.4];
const LONGEST = 30; // of a name, in characters

const drawSvg = (tag, attributes, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

const short = (text) => text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;

// Centres in order, as near to `wishes` as they can be with `gaps` before each: those that would
// meet form a group around their mean (isotonic regression, by pooling).
const settle = (wishes, weights, gaps) => {
  const pools = []; // sum of weighted places, weight, number
  let before = 0;
  const starts = gaps.map((gap) => (before += gap));
  const mean = ([sum, weight]) => sum / weight;
  wishes.forEach((wish, n) => {
    pools.push([(wish - starts[n]) * weights[n], weights[n], 1]);
    while (pools.length > 1 && mean(pools.at(-2)) > mean(pools.at(-1))) {
      const last = pools.pop();
      last.forEach((part, k) => { pools.at(-1)[k] += part; });
    }
  });
  return pools.flatMap((pool) => Array(pool[2]).fill(mean(pool))).map((at, n) => at + starts[n]);
};

// The pieces that lead to each place of a scope and from it.
const linksOf = ({ pieces, layers }) => {
  const links = { above: new Map(), below: new Map() };
  for (const at of layers.flat()) {
    links.above.set(at, []);
    links.below.set(at, []);
  }
  for (const [source, target] of pieces) {
    links.below.get(source).push(target);
    links.above.get(target).push(source);
  }
  return links;
};

const showGraph = (model, root) => {
  const nodes = model.get("nodes");
  const scopes = model.get("scopes");
  const links = scopes.map(linksOf);
  const places = []; // of each node among those of its scope
  scopes.forEach(({ nodes: own }) => own.forEach((number, at) => { places[number] = at; }));
  const parents = []; // the group of each scope
  nodes.forEach((node, n) => { if (node.inside) parents[node.inside] = n; });

  // Times add up in groups.
  const slow = Math.max(0, ...nodes.map((node) => node.seconds ?? 0));
  const amounts = nodes.map(({ seconds, bytes }) => ({ seconds, bytes }));
  nodes.forEach((node) => {
    for (let at = parents[node.scope]; node.seconds != null && at != null;
      at = parents[nodes[at].scope]) {
      amounts[at].seconds = (amounts[at].seconds ?? 0) + node.seconds;
      amounts[at].bytes = (amounts[at].bytes ?? 0) + node.bytes;
    }
  });
  const noteOf = (n) => amounts[n].seconds == null ? ""
    : `${duration(amounts[n].seconds)} · ${grouped(amounts[n].bytes)} B`;
  const labelOf = (n) => nodes[n].kind === "group"
    ? `${isOpen(n) ? "▾" : "▸"} ${short(nodes[n].name)}` : short(nodes[n].name);
  const isOpen = (n) => model.get("opened").includes(n);

  // What an operator reads, and what reads it: numbers of nodes, past the points of edges.
  const near = (n, way) => {
    const { scope } = nodes[n];
    const own = scopes[scope].nodes;
    const found = new Set();
    const queue = [...links[scope][way].get(places[n])];
    while (queue.length) {
      const at = queue.pop();
      if (at < own.length) found.add(own[at]);
      else queue.push(...links[scope][way].get(at));
    }
    return [...found].sort((a, b) => a - b);
  };

  // The places of a scope's boxes from its corner, and its size.
  const layout = (scope) => {
    const { nodes: own, layers } = scopes[scope];
    const boxes = new Map();
    const insides = new Map();
    let y = 0;
    const floors = [];
    for (const layer of layers) {
      let tall = 0;
      for (const at of layer) {
        const box = { x: 0, y, w: 2, h: 0, point: at >= own.length };
        if (!box.point) {
          const n = own[at];
          const note = noteOf(n);
          box.w = Math.max(44, 20 + LINE * Math.max(labelOf(n).length, note.length * 0.86));
          box.h = TALL + (note ? NOTE : 0);
          if (nodes[n].inside && isOpen(n)) {
            const inner = layout(nodes[n].inside);
            insides.set(at, inner);
            box.head = box.h;
            box.w = Math.max(box.w, inner.w + 2 * INSET);
            box.h += inner.h + 2 * INSET;
          }
        }
        tall = Math.max(tall, box.h);
        boxes.set(at, box);
      }
      for (const at of layer) if (boxes.get(at).point) boxes.get(at).h = tall;
      y += tall + BETWEEN;
      floors.push(y - BETWEEN);
      layer.forEach((at) => { boxes.get(at).floor = y - BETWEEN; });
    }
    const middle = (at) => boxes.get(at).x + boxes.get(at).w / 2;
    for (let sweep = 0; sweep < 8; sweep += 1) {
      const upwards = sweep % 2;
      for (const layer of upwards ? [...layers].reverse() : layers) {
        const row = layer.map((at) => boxes.get(at));
        const gaps = row.map((box, n) => n ? (box.w + row[n - 1].w) / 2 + APART : 0);
        const wishes = layer.map((at) => {
          const others = links[scope][upwards ? "below" : "above"].get(at);
          return others.length
            ? others.reduce((sum, other) => sum + middle(other), 0) / others.length : middle(at);
        });
        settle(wishes, row.map((box) => box.point ? 4 : 1), gaps)
          .forEach((at, n) => { row[n].x = at - row[n].w / 2; });
      }
    }
    const left = Math.min(0, ...[...boxes.values()].map((box) => box.x));
    for (const box of boxes.values()) box.x -= left;
    const w = Math.max(0, ...[...boxes.values()].map((box) => box.x + box.w));
    return { scope, boxes, insides, w, h: Math.max(0, y - BETWEEN) };
  };

  // Everything at its place in the whole: groups before what is in them.
  let boxes = new Map();
  let lines = [];
  let size = {};
  const flatten = (part, x, y) => {
    const { nodes: own, pieces } = scopes[part.scope];
    for (const [at, box] of part.boxes) {
      if (!box.point) boxes.set(own[at], { ...box, x: x + box.x, y: y + box.y });
    }
    for (const [source, target] of pieces) {
      const [a, b] = [part.boxes.get(source), part.boxes.get(target)];
      const [ax, bx] = [x + a.x + a.w / 2, x + b.x + b.w / 2];
      const [top, from, to] = [y + a.y + a.h, y + a.floor, y + b.y];
      const bend = (from + to) / 2;
      const d = `M${ax.toFixed(1)} ${top}V${from}C${ax.toFixed(1)} ${bend} ${bx.toFixed(1)} ${bend} `
        + `${bx.toFixed(1)} ${to}${b.point ? `v${b.h}` : ""}`;
      lines.push({ d, scope: part.scope, source, target, x: Math.min(ax, bx), y: top,
        w: Math.abs(ax - bx), h: to - top + (b.point ? b.h : 0) });
    }
    for (const [at, inner] of part.insides) {
      const box = part.boxes.get(at);
      flatten(inner, x + box.x + (box.w - inner.w) / 2, y + box.y + box.head + INSET);
    }
  };
  const place = () => {
    boxes = new Map();
    lines = [];
    const whole = layout(0);
    flatten(whole, INSET, INSET);
    size = { w: whole.w + 2 * INSET, h: whole.h + 2 * INSET };
  };

  // The nearest box that shows a node: its own, or that of a group that is closed.
  const visible = (n) => {
    let at = n;
    for (let up = parents[nodes[n].scope]; up != null; up = parents[nodes[up].scope]) {
      if (!isOpen(up)) at = up;
    }
    return at;
  };

  const svg = drawSvg("svg", { class: "mlc-graph", "aria-hidden": "true" });
  const stage = control("div", { class: "mlc-pane mlc-graph-pane", tabindex: 0, role: "application",
    "aria-roledescription": "graph",
    "aria-label": `${model.get("title")}. Arrow keys go along edges, Enter opens a group, Escape leaves it.`,
  }, make("div", { class: "mlc-graph-room" }, svg));
  const said = make("div", { class: "mlc-where", role: "status" });
  const hint = "Point at a box, or go along the edges with the arrow keys; Enter opens a group.";
  let scale = SCALES.indexOf(1);
  let over = -1;

  const say = (n) => {
    said.textContent = n < 0 ? hint : [nodes[n].text, noteOf(n)].filter(Boolean).join(" · ");
  };
  // Lines from a node and to it, past the points of edges.
  const linesOf = (n) => {
    const { scope } = nodes[n];
    const count = scopes[scope].nodes.length;
    const marked = { above: new Set([places[n]]), below: new Set([places[n]]) };
    for (const way of ["above", "below"]) {
      for (const at of marked[way]) {
        if (at === places[n] || at >= count) {
          links[scope][way].get(at).forEach((next) => next >= count && marked[way].add(next));
        }
      }
    }
    return (line) => line.scope === scope
      && (marked.below.has(line.source) || marked.above.has(line.target));
  };

  const paint = () => {
    const s = SCALES[scale];
    const margin = 200;
    const view = { x: stage.scrollLeft / s - margin, y: stage.scrollTop / s - margin,
      w: stage.clientWidth / s + 2 * margin, h: stage.clientHeight / s + 2 * margin };
    const seen = (b) => b.x <= view.x + view.w && b.x + b.w >= view.x
      && b.y <= view.y + view.h && b.y + b.h >= view.y;
    const chosen = model.get("chosen");
    const here = over >= 0 ? over : chosen >= 0 && chosen < nodes.length ? visible(chosen) : -1;
    const lit = here >= 0 ? linesOf(here) : () => false;
    const inView = lines.filter(seen);
    const path = (name, some) => drawSvg("path", { class: name, d: some.map(({ d }) => d).join("") });
    const parts = [];
    for (const [n, box] of boxes) {
      if (!seen(box)) continue;
      const group = drawSvg("g", { class: `mlc-node mlc-${nodes[n].kind}`, "data-node": n,
        transform: `translate(${box.x.toFixed(1)} ${box.y})` });
      if (box.head) group.classList.add("mlc-open");
      if (n === here) group.classList.add("mlc-on");
      group.append(drawSvg("rect", { width: box.w.toFixed(1), height: box.h, rx: 5 }));
      if (slow && amounts[n].seconds != null) {
        const share = Math.min(1, amounts[n].seconds / slow);
        group.append(drawSvg("rect", { class: "mlc-heat", x: 1, y: (box.head ?? box.h) - 5,
          width: ((box.w - 2) * share).toFixed(1), height: 4 }));
      }
      const middle = (box.w / 2).toFixed(1);
      group.append(drawSvg("text", { x: middle, y: 17 }, labelOf(n)));
      if (noteOf(n)) group.append(drawSvg("text", { class: "mlc-note", x: middle, y: 32 }, noteOf(n)));
      parts.push(group);
    }
    svg.replaceChildren(...parts, path("mlc-edges", inView), path("mlc-edges mlc-on", inView.filter(lit)));
  };
  const resize = () => {
    const s = SCALES[scale];
    svg.setAttribute("viewBox", `0 0 ${size.w} ${size.h}`);
    svg.setAttribute("width", size.w * s);
    svg.setAttribute("height", size.h * s);
    smaller.disabled = scale === 0;
    larger.disabled = scale === SCALES.length - 1;
    paint();
  };
  const zoom = (to) => {
    const old = SCALES[scale];
    scale = Math.max(0, Math.min(SCALES.length - 1, to));
    const ratio = SCALES[scale] / old;
    const [x, y] = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
    resize();
    stage.scrollLeft = x * ratio - stage.clientWidth / 2;
    stage.scrollTop = y * ratio - stage.clientHeight / 2;
  };
  const reveal = (n) => {
    const box = boxes.get(visible(n));
    const s = SCALES[scale];
    const into = (from, length, start, room) => length > room || start < from
      ? start - 20 : start + length > from + room ? start + length - room + 20 : from;
    stage.scrollLeft = into(stage.scrollLeft, box.w * s, box.x * s, stage.clientWidth);
    stage.scrollTop = into(stage.scrollTop, (box.head ?? box.h) * s, box.y * s, stage.clientHeight);
  };
  const choose = (n) => put(model, "chosen", n);
  const toggle = (n) => {
    const open = model.get("opened");
    put(model, "opened", isOpen(n) ? open.filter((each) => each !== n) : [...open, n]);
  };

  const smaller = button("−", () => zoom(scale - 1), { "aria-label": "Smaller" });
  const larger = button("+", () => zoom(scale + 1), { "aria-label": "Larger" });
  const groups = nodes.flatMap((node, n) => node.kind === "group" ? [n] : []);
  const all = groups.length ? [
    button("Open all", () => put(model, "opened", groups)),
    button("Close all", () => put(model, "opened", [])),
  ] : [];
  root.append(
    make("div", { class: "mlc-head" }, make("span", { class: "mlc-title" }, model.get("title")),
      ...all, smaller, larger),
    stage, said);

  const nodeAt = (event) => Number(event.target.closest("[data-node]")?.dataset.node ?? -1);
  const point = (n) => {
    if (n === over) return;
    over = n;
    say(n >= 0 ? n : model.get("chosen"));
    paint();
  };
  stage.addEventListener("pointermove", (event) => point(nodeAt(event)));
  stage.addEventListener("pointerleave", () => point(-1));
  stage.addEventListener("click", (event) => {
    const n = nodeAt(event);
    if (n < 0) return;
    over = -1;
    choose(n);
    if (nodes[n].kind === "group") toggle(n);
  });
  stage.addEventListener("keydown", (event) => {
    const shown = model.get("chosen") >= 0 ? visible(model.get("chosen")) : -1;
    const act = keys[event.key];
    if (!act) return;
    const to = shown < 0 && event.key !== "End" ? scopes[0].nodes[0] : act(shown);
    event.preventDefault();
    if (to == null) return;
    over = -1;
    choose(to);
  });
  const beside = (n, step) => { // in the same layer, past the points of edges
    const { nodes: own, layers } = scopes[nodes[n].scope];
    const layer = layers.find((each) => each.includes(places[n])).filter((at) => at < own.length);
    return own[layer[layer.indexOf(places[n]) + step]];
  };
  const enter = (n) => {
    if (nodes[n].kind !== "group") return n;
    const opens = !isOpen(n);
    toggle(n);
    return opens ? scopes[nodes[n].inside].nodes[0] : n;
  };
  const keys = {
    ArrowUp: (n) => near(n, "above")[0],
    ArrowDown: (n) => near(n, "below")[0],
    ArrowLeft: (n) => beside(n, -1),
    ArrowRight: (n) => beside(n, 1),
    Home: () => scopes[0].nodes[0],
    End: () => scopes[0].nodes.at(-1),
    Escape: (n) => parents[nodes[n].scope],
    Enter: enter,
    " ": enter,
  };

  let waiting = 0;
  stage.addEventListener("scroll", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(paint);
  });
  const arrange = () => {
    place();
    resize();
  };
  const follow = () => {
    const n = model.get("chosen");
    say(n);
    if (n >= 0 && n < nodes.length) reveal(n);
    paint();
  };
  arrange();
  say(model.get("chosen"));
  const undo = [watch(model, ["opened"], arrange), watch(model, ["chosen"], follow),
    whenShown(stage, () => {
      const box = boxes.get(scopes[0].nodes[0]);
      if (box) stage.scrollLeft = (box.x + box.w / 2) * SCALES[scale] - stage.clientWidth / 2;
      follow();
    })];
  return () => undo.forEach((each) => each());
};
