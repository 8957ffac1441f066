// A rectangle for each value: steps to the right, bytes of the arena upwards. The plot is as wide
// as the page and counts in steps and bytes; only labels have a size in pixels.
const HEIGHT = 260; // of the plot, px
const ALIVE = 60; // of what is alive, px
const LETTER = 6.6; // px

const drawSvg = (tag, attributes) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

const bytesText = (bytes) => `${grouped(bytes)} ${bytes === 1 ? "byte" : "bytes"}`;

export default {
  render({ model, el }) {
    const values = model.get("values");
    const live = model.get("live");
    const sizes = model.get("sizes");
    const [[, planned], [, naive], [, least]] = sizes;
    const root = panel(el, "MemoryTimeline", `Memory of ${model.get("title")}`);
    const steps = Math.max(1, live.length);
    const across = (step) => (100 * step) / steps;
    const up = (byte) => 100 - (100 * byte) / Math.max(1, planned);
    const percent = (number) => `${number.toFixed(4)}%`;
    let over = -1;

    const amounts = sizes.map(([name, size, of]) => make("tr", {},
      make("th", { scope: "row" }, name), make("td", {}, grouped(size)),
      make("td", {}, `${of.toFixed(2)}×`),
      make("td", { class: "mlc-wide-cell" }, make("div", { class: "mlc-meter", "aria-hidden": "true" },
        make("span", { style: `width: ${(100 * size) / Math.max(1, naive, planned)}%` })))));

    const plot = drawSvg("svg", { class: "mlc-memory", width: "100%", height: HEIGHT, "aria-hidden": "true" });
    const rects = values.map((value, n) => {
      const rect = drawSvg("rect", { class: `mlc-life mlc-life-${n % 4}`, "data-value": n,
        x: percent(across(value.first)), width: percent(across(value.last + 1 - value.first)),
        y: percent(up(value.offset + value.bytes)), height: percent(up(0) - up(value.bytes)) });
      if (value.over != null) rect.classList.add("mlc-over");
      return rect;
    });
    const labels = values.map((value) => {
      const label = drawSvg("text", { class: "mlc-life-name", dy: 4,
        x: percent(across((value.first + value.last + 1) / 2)),
        y: percent(up(value.offset + value.bytes / 2)) });
      label.textContent = value.name;
      return label;
    });
    plot.append(...rects, ...labels);
    const alive = drawSvg("svg", { class: "mlc-memory", width: "100%", height: ALIVE, "aria-hidden": "true" });
    alive.append(...live.map((bytes, step) => drawSvg("rect", { class: "mlc-alive",
      x: percent(across(step)), width: percent(across(1)), y: percent(100 - (100 * bytes) / Math.max(1, least)),
      height: percent((100 * bytes) / Math.max(1, least)) })));

    const said = make("div", { class: "mlc-where", role: "status" });
    const hint = "Point at a value, or go through them with the arrow keys.";
    const stage = control("div", { class: "mlc-memory-stage", tabindex: 0, role: "application",
      "aria-roledescription": "timeline",
      "aria-label": `${model.get("title")}. Arrow keys go from value to value.` },
    make("div", { class: "mlc-axis" }, `${bytesText(planned)} of the arena`), plot,
    make("div", { class: "mlc-axis" }, `alive, at most ${bytesText(least)}`), alive,
    make("div", { class: "mlc-axis mlc-axis-steps" }, make("span", {}, "step 0"),
      make("span", {}, steps > 1 ? `step ${steps - 1}` : "")));
    root.append(
      make("div", { class: "mlc-head" }, make("span", { class: "mlc-title" }, model.get("title"))),
      make("div", { class: "mlc-scroll" }, make("table", { class: "mlc-figures" },
        make("thead", {}, make("tr", {}, ...["arena", "bytes", "of the least", ""].map((text) =>
          make("th", { scope: "col" }, text)))), make("tbody", {}, ...amounts))),
      stage, said);

    const describe = ({ text, bytes, first, last, offset, over: replaced }) => {
      const when = first === last ? `step ${first}` : `steps ${first} to ${last}`;
      const how = replaced == null ? "" : `, over the value of step ${replaced}`;
      return `${text}, ${bytesText(bytes)} at ${grouped(offset)}, ${when}${how}`;
    };
    const update = () => {
      const chosen = model.get("chosen");
      const here = over >= 0 ? over : chosen;
      rects.forEach((rect, n) => rect.classList.toggle("mlc-on", n === here));
      said.textContent = values[here] ? describe(values[here]) : hint;
    };
    const point = (n) => {
      over = n;
      update();
    };
    stage.addEventListener("pointermove", (event) => point(Number(event.target.dataset.value ?? -1)));
    stage.addEventListener("pointerleave", () => point(-1));
    stage.addEventListener("click", (event) => {
      if (event.target.dataset.value) put(model, "chosen", Number(event.target.dataset.value));
    });
    stage.addEventListener("keydown", (event) => {
      const at = model.get("chosen");
      const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1,
        Home: 0, End: values.length - 1 }[event.key];
      if (to == null || !values.length) return;
      event.preventDefault();
      over = -1;
      put(model, "chosen", Math.max(0, Math.min(values.length - 1, to)));
    });
    // A name is shown where there is room for it.
    const fit = () => {
      const wide = plot.clientWidth;
      values.forEach((value, n) => {
        const room = (wide * (value.last + 1 - value.first)) / steps;
        const tall = (HEIGHT * value.bytes) / Math.max(1, planned);
        labels[n].classList.toggle("mlc-no-room", room < value.name.length * LETTER + 8 || tall < 14);
      });
    };
    const observer = new ResizeObserver(fit);
    observer.observe(plot);
    update();
    const undo = watch(model, ["chosen"], update);
    return () => {
      observer.disconnect();
      undo();
    };
  },
};
