const HEIGHT = 200; // of a plot, px

const draw = (tag, attributes, title = "") => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (title) {
    const text = document.createElementNS("http://www.w3.org/2000/svg", "title");
    text.textContent = title;
    node.append(text);
  }
  return node;
};

const digits = (value) => String(Number(value.toPrecision(3)));

// Round steps from 0 to beyond `most`, about five of them.
const linearAxis = (most) => {
  const power = 10 ** Math.floor(Math.log10(most / 5));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= most / 5);
  const count = Math.max(1, Math.ceil(most / step - 1e-9));
  return {
    ticks: Array.from({ length: count + 1 }, (_, n) => Number((n * step).toPrecision(6))),
    at: (value) => (100 * value) / (count * step),
  };
};

// Powers of a number around a range, six of them at the most.
const powerAxis = (least, most) => {
  const base = [2, 4, 10, 100].find((size) => Math.log(most / least) / Math.log(size) <= 5) ?? 1000;
  const low = Math.floor(Math.log(least) / Math.log(base) - 0.05);
  const high = Math.max(low + 1, Math.ceil(Math.log(most) / Math.log(base) + 0.05));
  return {
    ticks: Array.from({ length: high - low + 1 }, (_, n) => base ** (low + n)),
    at: (value) => (100 * (Math.log(value) / Math.log(base) - low)) / (high - low),
  };
};

// A plot with its ticks: `line` and `dot` take the axes' values.
const plot = (caption, x, y) => {
  const svg = draw("svg", { width: "100%", height: HEIGHT, "aria-hidden": "true" });
  const area = make("div", { class: "mlc-search-area" }, svg,
    ...y.ticks.map((tick) => make("span", { class: "mlc-y-tick", style: `top: ${100 - y.at(tick)}%` },
      digits(tick))),
    ...x.ticks.map((tick) => make("span", { class: "mlc-x-tick", style: `left: ${x.at(tick)}%` },
      digits(tick))));
  const line = (name, x1, y1, x2, y2) => svg.append(draw("line", { class: name,
    x1: `${x.at(x1)}%`, x2: `${x.at(x2)}%`, y1: `${100 - y.at(y1)}%`, y2: `${100 - y.at(y2)}%` }));
  const [left, right] = [x.ticks[0], x.ticks.at(-1)];
  y.ticks.forEach((tick) => line("mlc-grid", left, tick, right, tick));
  return {
    node: make("figure", {}, make("figcaption", {}, caption), area),
    line,
    dot: (at, value, chosen, title) => svg.append(draw("circle", {
      class: chosen ? "mlc-trial mlc-chosen" : "mlc-trial", cx: `${x.at(at)}%`,
      cy: `${100 - y.at(value)}%`, r: chosen ? 4.5 : 3 }, title)),
    cross: (at, title) => { // below the axis, in a frame whose pixels count from there
      const frame = draw("svg", { x: `${x.at(at)}%`, y: "100%", overflow: "visible" });
      frame.append(draw("path", { class: "mlc-failed", d: "M-3 -3 L3 3 M-3 3 L3 -3" }, title));
      svg.append(frame);
    },
    level: (value, name) => {
      line("mlc-level", left, value, right, value);
      area.append(make("span", { class: "mlc-level-name", style: `top: ${100 - y.at(value)}%` }, name));
    },
  };
};

export default {
  render({ model, el }) {
    const root = panel(el, "SearchProgress", "Search");
    const status = make("span", { class: "mlc-title", role: "status" });
    const place = make("div", { class: "mlc-search" });
    const parts = control("div", { class: "mlc-search-parts", tabindex: 0, role: "region",
      "aria-label": "Failures, and what the best does differently" });
    root.append(make("div", { class: "mlc-head" }, status), place, parts, make("div", { class: "mlc-foot" },
      make("span", {}, "A dot is a trial, × one that failed; the line is the best so far. Interrupt the "
        + "kernel to stop: the search gives the best so far.")));

    const table = (heads, rows) => make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows.map(([name, ...cells]) => make("tr", {},
        make("th", { scope: "row" }, name), ...cells.map((text) => make("td", {}, text))))));

    const update = () => {
      const trials = model.get("trials");
      const ok = trials.filter((trial) => trial.score !== null);
      const least = Math.min(...ok.map((trial) => trial.score));
      const base = trials[0]?.score ?? least; // what counts as 1
      const best = model.get("chosen");
      const most = Math.max(model.get("most"), trials.length);
      const unit = trials[0]?.score ? "the default's" : "the best's";
      const stopped = model.get("stopped");
      status.replaceChildren(make("b", {}, model.get("name") || "Search"),
        `${trials.length}${most > trials.length ? ` of ${most}` : ""} trials`
        + `${ok.length ? `; the best is trial ${best}, ${digits(trials[0].score ? model.get("speedup") : 1)} × `
          + `${unit} speed` : ""}`
        + `${stopped ? `; ended because ${stopped}` : ""}`);

      place.replaceChildren();
      if (ok.length) {
        const library = model.get("library");
        const speeds = [1, base / least, ...library.map((line) => line.speed)];
        const x = linearAxis(Math.max(most - 1, 1));
        const left = plot(`speed, in times of ${unit}, by trial`, x, linearAxis(1.05 * Math.max(...speeds)));
        left.level(1, unit === "the default's" ? "default" : "best");
        library.forEach((line) => left.level(line.speed, line.name));
        let reached = 0;
        trials.forEach((trial, n) => {
          const title = `trial ${n}: `;
          if (trial.score === null) left.cross(n, `${title}${trial.kind}. ${trial.message}`);
          else {
            const speed = base / trial.score;
            if (speed > reached && reached) left.line("mlc-best", n, reached, n, speed);
            reached = Math.max(reached, speed);
            left.dot(n, speed, n === best, `${title}${digits(speed)} × ${unit} speed`);
          }
          if (reached && n + 1 < trials.length) left.line("mlc-best", n, reached, n + 1, reached);
        });
        place.append(left.node);

        const both = ok.filter((trial) => trial.expected !== null);
        if (both.length) {
          const values = both.flatMap((trial) => [trial.score, trial.expected]);
          const axis = powerAxis(Math.min(...values), Math.max(...values));
          const right = plot("predicted time (across) and measured time (up), in times of a reference",
            axis, axis);
          right.line("mlc-level", axis.ticks[0], axis.ticks[0], axis.ticks.at(-1), axis.ticks.at(-1));
          both.forEach((trial) => {
            const n = trials.indexOf(trial);
            right.dot(trial.expected, trial.score, n === best,
              `trial ${n}: predicted ${digits(trial.expected)}, measured ${digits(trial.score)}`);
          });
          place.append(right.node);
        }
      }

      const kinds = [...new Set(trials.map((trial) => trial.kind))].filter((kind) => kind !== "ok");
      const failed = kinds.map((kind) => [kind, trials.filter((trial) => trial.kind === kind)]);
      const decisions = model.get("decisions");
      const steps = model.get("steps");
      parts.replaceChildren(...(failed.length ? [make("h4", {}, "Failures"),
        table(["kind", "trials", "the first of them"], failed.map(([kind, all]) => (
          [kind, String(all.length), all[0].message.split("\n")[0]])))] : []),
      ...(decisions.length || steps.length
        ? [make("h4", {}, "What the best does differently from the default")] : []),
      ...(decisions.length ? [table(["decision", "default", "best"], decisions)] : []),
      ...(steps.length ? [make("div", { class: "mlc-search-steps" }, ...steps.flatMap(([sign, text]) => [
        make("span", { "data-sign": sign }, `${sign} ${text}`), "\n"]))] : []));
      parts.hidden = !parts.childNodes.length;
    };
    update();
    return watch(model, ["trials", "library", "decisions", "steps", "stopped", "most", "name", "chosen",
      "speedup"], update);
  },
};
