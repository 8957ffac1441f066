const ROW = 34; // the height of a strip, px
const CLOSE = 18; // percent of a narrow axis that a label needs

const draw = (tag, attributes) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

// From seconds to percent of the axis's width, with its ticks.
const linear = (most) => {
  const unit = unitFor(most);
  const rough = most / unit[1] / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power * unit[1];
  const count = Math.ceil(most / step - 1e-9);
  return {
    ticks: Array.from({ length: count + 1 }, (_, n) => n * step),
    unit: () => unit,
    at: (seconds) => (100 * seconds) / (count * step),
  };
};

// The numbers 1, 2 and 5 times a power of ten around a range; powers alone where it is wide.
const logarithmic = (least, most) => {
  const low = Math.floor(Math.log10(least)) - 1;
  const high = Math.ceil(Math.log10(most)) + 1;
  const factors = Math.log10(most / least) > 2.5 ? [1] : [1, 2, 5];
  const all = Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n))
    .flatMap((power) => factors.map((factor) => factor * power));
  const first = all.findLastIndex((tick) => tick <= least);
  const last = Math.max(first + 1, all.findIndex((tick) => tick >= most));
  const ticks = all.slice(first, last + 1);
  const span = Math.log(ticks.at(-1) / ticks[0]);
  return {
    ticks,
    unit: (seconds) => unitFor(seconds * (1 + 1e-9)),
    at: (seconds) => (100 * Math.log(seconds / ticks[0])) / span,
  };
};

const strip = (timing, axis, withBar) => {
  const svg = draw("svg", { class: "mlc-strip", width: "100%", height: ROW, "aria-hidden": "true" });
  for (const tick of axis.ticks) {
    const x = `${axis.at(tick)}%`;
    svg.append(draw("line", { class: "mlc-grid", x1: x, x2: x, y1: 0, y2: ROW }));
  }
  const middle = axis.at(timing.median);
  if (withBar) {
    const bar = { class: "mlc-bar", x: 0, y: 9, width: `${middle}%`, height: ROW - 18, rx: 2 };
    svg.append(draw("rect", bar));
  }
  timing.samples.forEach((seconds, n) => {
    if (axis.at(seconds) > 100) return;
    const height = ((n * 0.618034) % 1) - 0.5; // spread evenly, in no visible order
    const cy = ROW / 2 + height * (ROW - 12);
    const dot = draw("circle", { class: "mlc-dot", cx: `${axis.at(seconds)}%`, cy, r: 2.6 });
    const title = draw("title", {});
    title.textContent = duration(seconds);
    dot.append(title);
    svg.append(dot);
  });
  const x = `${middle}%`;
  svg.append(draw("line", { class: "mlc-median", x1: x, x2: x, y1: 4, y2: ROW - 4 }));
  const slowest = Math.max(...timing.samples);
  if (axis.at(slowest) > 100) { // an arrow with its time, in a frame whose pixels count from the end
    const edge = draw("svg", { class: "mlc-beyond", x: "100%", y: ROW / 2, overflow: "visible" });
    const text = draw("text", { x: 2, y: 4, "text-anchor": "end" });
    text.textContent = duration(slowest);
    edge.append(text, draw("path", { d: "M6 -5 L14 0 L6 5 Z" }));
    svg.append(edge);
  }
  return svg;
};

// The labels of an axis; those close to the one before are left out where it is narrow.
const scale = (axis) => {
  let last = -Infinity;
  return make("div", { class: "mlc-scale", "aria-hidden": "true" }, ...axis.ticks.map((tick) => {
    const at = axis.at(tick);
    const close = at - last < CLOSE;
    if (!close) last = at;
    return make("span", { style: `left: ${at}%`, "data-close": close },
      tick ? inUnit(tick, axis.unit(tick)) : "0");
  }));
};

export default {
  render({ model, el }) {
    const timings = model.get("timings");
    const all = timings.flatMap((timing) => timing.samples);
    const [least, most] = [Math.min(...all), model.get("end")];
    const root = panel(el, "TimingBars", "Timings");
    const several = timings.length > 1;

    const choose = (name) => {
      put(model, "baseline", model.get("baseline") === name ? "" : name);
      update(name);
    };
    const log = control("input", {
      type: "checkbox", disabled: least <= 0,
      change: () => { put(model, "logarithmic", log.checked); update(); },
    });
    const place = make("div", { class: "mlc-place mlc-wide" });
    const machines = [...new Set(timings.map((timing) => timing.machine))].filter(Boolean);
    const legend = make("span", {});
    root.append(place, make("div", { class: "mlc-foot" }, legend,
      make("label", { class: "mlc-choice" }, log, "Logarithmic"),
      ...machines.map((machine) => make("span", { class: "mlc-machine" }, machine))));

    const update = (focus) => {
      const baseline = model.get("baseline");
      const isLog = model.get("logarithmic") && least > 0;
      const axis = isLog ? logarithmic(least, most) : linear(most || 1e-9);
      const base = timings.find((timing) => timing.name === baseline);
      log.checked = isLog;
      legend.textContent = [
        `A dot is one run, ${isLog ? "a line" : several ? "a bar" : "the bar"} the median.`,
        axis.at(Math.max(...all)) > 100 ? "▶ is the slowest run, where it is beyond the axis." : "",
        several ? "Press a name to compare with it." : "",
      ].filter(Boolean).join(" ");
      const cell = (name, ...content) => make("td", { class: name }, ...content);
      const rows = timings.map((timing) => {
        const chosen = timing.name === baseline;
        const name = several
          ? button(timing.name, () => choose(timing.name), {
            class: "mlc-name", "aria-pressed": String(chosen), "data-name": timing.name,
            title: chosen ? "the baseline" : "compare with this one",
          }) : make("span", { class: "mlc-name" }, timing.name);
        const times = timing.samples;
        const spread = `${Number((100 * timing.spread).toPrecision(2))} %`;
        const fastest = `min ${duration(Math.min(...times))}`;
        const meaning = `${plural(times.length, "sample")}; the middle half of them lies within `
          + `${spread} of the median`;
        const faster = base ? base.median / timing.median : NaN;
        const ratio = chosen ? "baseline"
          : Number.isFinite(faster) ? `${Number(faster.toPrecision(3))}×` : "";
        return make("tr", { "data-baseline": chosen },
          make("th", { scope: "row" }, name),
          cell("mlc-plot", strip(timing, axis, !isLog)),
          cell("mlc-value", make("b", {}, duration(timing.median)),
            make("span", { class: "mlc-least" }, fastest)),
          make("td", { class: "mlc-spread", title: meaning }, spread),
          base ? cell("mlc-ratio", ratio) : null);
      });
      const heads = ["", "", "median", "spread", base ? "speed-up" : null];
      const spoken = ["timing", "samples"];
      place.replaceChildren(make("table", { class: "mlc-timings" },
        make("thead", {}, make("tr", {}, ...heads.map((text, n) => text === null ? null
          : make("th", { scope: "col" }, text || make("span", { class: "mlc-spoken" }, spoken[n]))))),
        make("tbody", {}, ...rows, make("tr", { class: "mlc-axis", "aria-hidden": "true" },
          cell(""), cell("mlc-plot", scale(axis)), cell(""), cell(""), base ? cell("") : null))));
      if (focus) [...place.querySelectorAll("[data-name]")].find((b) => b.dataset.name === focus)?.focus();
    };
    update();
    return watch(model, ["baseline", "logarithmic"], () => update());
  },
};
