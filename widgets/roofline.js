const HEIGHT = 300; // of the plot, px
const APART = 17; // between the names of points, px
const ASIDE = 16; // from a dot to its name, px
const NEAR = 45; // percent of the width that a name may take

const draw = (tag, attributes) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

const PREFIXES = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];
const withPrefix = (value, unit) => {
  const [prefix, size] = PREFIXES.find(([, least]) => value >= least) ?? PREFIXES.at(-1);
  return `${Number((value / size).toPrecision(3))} ${prefix}${unit}`.trim();
};
const plain = (value) => value < 1 && Math.log2(value) % 1 === 0
  ? `1/${1 / value}` : String(value % 1 ? Number(value.toPrecision(3)) : value);

// A logarithmic axis around a range, in percent, with at most ten ticks.
const axisOf = (least, most) => {
  const span = Math.log2(most / least);
  const step = [1, 2, 3, 4, 6, 8, 10, 20].find((power) => span / power <= 8) ?? 40;
  const low = Math.floor(Math.log2(least) / step - 0.15) * step;
  const high = Math.max(low + step, Math.ceil(Math.log2(most) / step + 0.15) * step);
  const ticks = [];
  for (let power = low; power <= high; power += step) ticks.push(2 ** power);
  return { ticks, at: (value) => (100 * (Math.log2(value) - low)) / (high - low) };
};

// As `axisOf`, with round decimal ticks.
const decimalAxisOf = (least, most) => {
  const low = Math.floor(Math.log10(least / 1.3));
  const high = Math.max(low + 1, Math.ceil(Math.log10(most * 1.3)));
  const ticks = [];
  for (let power = low; power <= high; power += 1) ticks.push(10 ** power);
  return { ticks, at: (value) => (100 * (Math.log10(value) - low)) / (high - low) };
};

// Heights as near to `wishes`, which ascend, as they can be at a distance of APART: neighbours that
// are too close form a group around their mean (isotonic regression, by pooling).
const spread = (wishes) => {
  const groups = []; // the sum of their members, less APART for each name above, and their number
  const mean = ([sum, count]) => sum / count;
  wishes.forEach((wish, n) => {
    groups.push([wish - n * APART, 1]);
    while (groups.length > 1 && mean(groups.at(-2)) > mean(groups.at(-1))) {
      const [sum, count] = groups.pop();
      groups.at(-1)[0] += sum;
      groups.at(-1)[1] += count;
    }
  });
  const low = -APART / 2;
  const high = Math.max(low, HEIGHT + APART / 2 - wishes.length * APART);
  const heights = groups.flatMap((group) => Array(group[1]).fill(mean(group)));
  return heights.map((height, n) => Math.min(Math.max(height, low), high) + n * APART);
};

// Points whose names could meet, from left to right.
const neighbours = (places) => {
  const groups = [];
  for (const place of [...places].sort((a, b) => a.x - b.x)) {
    if (groups.length && place.x - groups.at(-1).at(-1).x < NEAR) groups.at(-1).push(place);
    else groups.push([place]);
  }
  return groups;
};

export default {
  render({ model, el }) {
    const points = model.get("points");
    const roof = model.get("roof");
    const root = panel(el, "Roofline", "Roofline");
    const xs = [roof.ridge, ...points.map((point) => point.intensity)];
    const ys = [roof.operations, ...points.map((point) => point.rate)];
    const x = axisOf(Math.min(...xs) / 2, Math.max(...xs) * 2);
    const y = decimalAxisOf(Math.min(...ys), Math.max(...ys));
    const top = (rate) => 100 - y.at(rate); // percent from above
    const roofAt = (intensity) => Math.min(roof.operations, roof.bytes * intensity);

    // The plot: lines and dots in percent, names as text beside them.
    const svg = draw("svg", { class: "mlc-roof-plot", width: "100%", height: HEIGHT, "aria-hidden": "true" });
    const line = (name, x1, y1, x2, y2) => svg.append(draw("line", {
      class: name, x1: `${x1}%`, y1: `${y1}%`, x2: `${x2}%`, y2: `${y2}%` }));
    for (const tick of x.ticks) line("mlc-grid", x.at(tick), 0, x.at(tick), 100);
    for (const tick of y.ticks) line("mlc-grid", 0, top(tick), 100, top(tick));
    const [first, ridge] = [x.ticks[0], roof.ridge];
    line("mlc-roof", 0, top(roof.bytes * first), x.at(ridge), top(roof.operations));
    line("mlc-roof", x.at(ridge), top(roof.operations), 100, top(roof.operations));
    line("mlc-ridge", x.at(ridge), top(roof.operations), x.at(ridge), 100);
    line("mlc-ridge", 0, top(roof.operations), x.at(ridge), top(roof.operations));

    const dots = points.map((point) => {
      const [cx, cy] = [`${x.at(point.intensity)}%`, `${top(point.rate)}%`];
      const reach = draw("line", { class: "mlc-reach", x1: cx, x2: cx, y1: cy,
        y2: `${top(roofAt(point.intensity))}%` });
      const dot = draw("circle", { class: "mlc-point", cx, cy, r: 5 });
      const leader = draw("path", { class: "mlc-leader" });
      const aside = draw("svg", { x: cx, y: cy, overflow: "visible" }); // px from the dot
      aside.append(leader);
      svg.append(reach, aside, dot);
      return [dot, reach, leader];
    });

    // Names do not cover each other; a line leads from each dot to its name.
    const places = points.map((point, n) => (
      { n, x: x.at(point.intensity), at: (HEIGHT * top(point.rate)) / 100 }));
    const names = [];
    for (const group of neighbours(places)) {
      group.sort((a, b) => a.at - b.at);
      spread(group.map((place) => place.at)).forEach((at, k) => {
        const place = group[k];
        const left = place.x > 55;
        dots[place.n][2].setAttribute("d", `M0 0 L${left ? -ASIDE : ASIDE} ${at - place.at}`);
        names[place.n] = make("span", { class: "mlc-point-name", "data-point": place.n,
          style: `top: ${at}px; ${left ? `right: ${100 - place.x}%` : `left: ${place.x}%`}` },
        points[place.n].name);
      });
    }
    const label = (text, name, style) => make("span", { class: `mlc-roof-name ${name}`, style }, text);
    const slope = label(`memory ${withPrefix(roof.bytes, "B/s")}`, "mlc-slope",
      `left: 0; top: ${top(roof.bytes * first)}%`);
    const flat = label(`multiply-adds ${withPrefix(roof.operations, "FLOP/s")}`, "mlc-flat",
      `left: 0; top: ${top(roof.operations)}%`);
    const plot = make("div", { class: "mlc-roof-area" }, svg, slope, flat, ...names,
      ...y.ticks.map((tick) => make("span", { class: "mlc-y-tick", style: `top: ${top(tick)}%` },
        withPrefix(tick, ""))),
      ...x.ticks.map((tick) => make("span", { class: "mlc-x-tick", style: `left: ${x.at(tick)}%` },
        plain(tick))));

    const point = (n) => {
      dots.forEach((nodes, k) => nodes.forEach((node) => node.classList.toggle("mlc-on", k === n)));
      names.forEach((name, k) => name.classList.toggle("mlc-on", k === n));
      rows.forEach((row, k) => row.classList.toggle("mlc-linked", k === n));
    };
    const heads = ["kernel", "operations a byte", "reached", "of the roof", "limit"];
    const cell = (text) => make("td", {}, text);
    const rows = points.map(({ name, intensity, rate, share }, n) => make("tr", {
      mouseenter: () => point(n), mouseleave: () => point(-1) },
    make("th", { scope: "row" }, control("button", { type: "button", class: "mlc-name",
      focus: () => point(n), blur: () => point(-1), click: () => point(n) }, name)),
    cell(String(Number(intensity.toPrecision(3)))), cell(withPrefix(rate, "FLOP/s")),
    cell(`${(100 * share).toFixed(1)}\u00a0%${share > 1 ? "*" : ""}`),
    cell(intensity < roof.ridge ? "memory" : "multiply-adds")));
    [...dots.map(([dot]) => dot), ...names].forEach((node, k) => {
      const n = k % points.length;
      node.addEventListener("mouseenter", () => point(n));
      node.addEventListener("mouseleave", () => point(-1));
    });
    root.append(
      make("div", { class: "mlc-roof-frame" },
        make("div", { class: "mlc-axis-name" }, "operations a second (float32)"), plot,
        make("div", { class: "mlc-axis-name mlc-x-name" }, "operations a byte")),
      control("div", { class: "mlc-roof-table", tabindex: 0, role: "region", "aria-label": "Kernels" }, make("table", { class: "mlc-kernels" },
        make("thead", {}, make("tr", {}, ...heads.map((text) =>
          make("th", { scope: "col" }, text)))), make("tbody", {}, ...rows))),
      make("div", { class: "mlc-foot" },
        make("span", {}, "Both peaks are measured, on one core; the dashed line is how far a kernel is "
          + "from its roof."),
        ...model.get("above").map((text) => make("span", { class: "mlc-above" }, `* ${text}`)),
        roof.machine && make("span", { class: "mlc-machine" }, roof.machine)));
    return () => {};
  },
};
