export default {
  render({ model, el }) {
    const versions = model.get("versions");
    const levels = model.get("levels");
    const root = panel(el, "AccessHeatmap", "Cache hits and misses");
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const last = levels.length - 1;

    // What can be shown of an element: [name, colour, its value]
    const missed = levels.map((_, n) => [
      last ? `L${n + 1} misses` : "misses", RED, (buffer) => buffer.misses[n]]);
    const hits = [last ? "L1 hits" : "hits", GREEN,
      (buffer) => buffer.all.map((count, k) => count - buffer.misses[0][k])];
    const layers = [...missed, hits, ["accesses", BLUE, (buffer) => buffer.all]];

    const buffers = versions.flatMap((version) => version.buffers.map((buffer) => ({
      ...buffer, all: spreadRuns(buffer.touched), misses: buffer.missed.map(spreadRuns),
    })));
    const perElement = (buffer, value) => value / (buffer.grid[2] * buffer.grid[3]);

    const status = make("span", { class: "mlc-said", role: "status" });
    const hint = "Point at an element, or reach a grid with Tab and use the arrow keys.";
    const say = (text) => { status.textContent = text || hint; };
    const describe = (buffer) => (row, column) => {
      const right = Math.ceil(buffer.grid[1] / buffer.grid[3]);
      const at = row * right + column;
      const counts = buffer.misses.map((misses, n) =>
        `${grouped(misses[at])} missed${last ? ` in L${n + 1}` : ""}`);
      const count = `${grouped(buffer.all[at])} ${buffer.all[at] === 1 ? "access" : "accesses"}`;
      return `${elementText(buffer, row, column)}: ${count}, ${counts.join(", ")}`;
    };

    let at = 0;
    const grids = [];
    const sides = versions.map((version) => {
      const mine = buffers.slice(at, at += version.buffers.length);
      const all = sum(mine.map((buffer) => sum(buffer.all)));
      const away = levels.map((_, n) => sum(mine.map((buffer) => sum(buffer.misses[n]))));
      const figures = mine.map((buffer) => {
        const size = `${buffer.shape.join(" × ") || "scalar"} ${buffer.dtype}`;
        const rate = `${buffer.rate} missed`;
        const grid = drawGrid(buffer, `${version.title}: ${buffer.name}, ${size}, ${rate}`,
          describe(buffer), say);
        grids.push([buffer, grid]);
        return make("figure", { class: "mlc-figure" },
          make("figcaption", { class: "mlc-caption" },
            make("b", {}, buffer.name), ` ${size}`, make("span", { class: "mlc-rate" }, rate)), grid.node);
      });
      const total = make("div", { class: "mlc-total" },
        make("b", {}, version.rate), " missed",
        make("span", { class: "mlc-of" }, ` ${away.map((count, n) =>
          `${grouped(count)}${last ? ` in L${n + 1}` : ""}`).join(", ")} of ${grouped(all)} accesses`));
      return make("div", { class: "mlc-side" },
        make("div", { class: "mlc-side-title" }, version.title), total,
        make("div", { class: "mlc-boards" }, ...figures));
    });

    const group = `mlc-layer-${Math.random().toString(36).slice(2)}`;
    const choices = layers.map(([name], n) => control("input", {
      type: "radio", name: group, value: n,
      change: () => { put(model, "layer", n); update(); },
    }));
    const key = make("div", { class: "mlc-key", "aria-hidden": "true" });
    root.append(
      make("div", { class: "mlc-head", role: "radiogroup", "aria-label": "What the colour shows" },
        ...choices.map((choice, n) =>
          make("label", { class: "mlc-choice" }, choice, layers[n][0])), key),
      make("div", { class: "mlc-sides" }, ...sides),
      make("div", { class: "mlc-foot" }, status,
        ...levels.map((text, n) => make("span", { class: "mlc-machine" },
          `${last ? `L${n + 1}` : "cache"}: ${text}`))));
    say("");

    const update = () => {
      const chosen = Math.max(0, Math.min(layers.length - 1, model.get("layer")));
      const [name, colour, value] = layers[chosen];
      choices.forEach((choice, n) => { choice.checked = n === chosen; });
      const values = grids.map(([buffer]) => value(buffer).map((v) => perElement(buffer, v)));
      const most = Math.max(1, ...values.map((mine) => Math.max(0, ...mine)));
      grids.forEach(([, grid], n) => grid.paint(values[n].map((v) =>
        v > 0 ? [...colour, 0.22 + 0.78 * (v / most)] : null)));
      const [from, to] = [0.22, 1].map((alpha) => `rgb(${colour.join(" ")} / ${alpha})`);
      key.replaceChildren("0", make("span", {
        class: "mlc-ramp", style: `background: linear-gradient(to right, ${from}, ${to})`,
      }), `${Number(most.toPrecision(3))} ${name} per element`);
    };
    update();
    return watch(model, ["layer"], update);
  },
};
