const TRAIL = 24; // steps that fade behind the one shown
const PACES = [1, 4, 15, 60, 240]; // steps a second
const SECONDS = 30; // about how long a run should take
const BOTH = [139, 92, 214];
const ORANGE = [217, 119, 6];

// Which cells of which buffers each touch covers: [buffer, written, cells].
const cellsOf = (touches, buffers) => touches.map(([number, written, ...runs]) => {
  const [, columns, tall, wide] = buffers[number].grid;
  const right = Math.ceil(columns / wide);
  const cells = new Set();
  for (let n = 0; n < runs.length; n += 2) {
    for (let k = 0; k < runs[n + 1]; k += 1) {
      const [row, column] = [Math.floor((runs[n] + k) / columns), (runs[n] + k) % columns];
      cells.add(Math.floor(row / tall) * right + Math.floor(column / wide));
    }
  }
  return [number, written, [...cells]];
});

// "i = 3", or of lanes and threads that work at once, all of their values.
const loopText = (loop, value, lanes, threads) => {
  if (loop.kind === "vectorized" && lanes > 1) return `${loop.name} = ${value}…${value + lanes - 1}`;
  if (loop.kind === "parallel" && threads > 1) return `${loop.name} = ${value} and ${threads - 1} more`;
  return `${loop.name} = ${value}`;
};

export default {
  render({ model, el }) {
    const [steps, loops, stores] = ["steps", "loops", "stores"].map((name) => model.get(name));
    const buffers = model.get("buffers");
    const touches = cellsOf(model.get("touches"), buffers);
    const last = steps.length - 1;
    const title = model.get("title");
    const root = panel(el, "LoopNest", `Iteration order of ${title}`);
    const still = matchMedia("(prefers-reduced-motion: reduce)");

    const touchesOf = (n) => steps[n].slice(3 + stores[steps[n][0]].loops.length)
      .map((number) => touches[number]);
    // The steps that touch each cell of each buffer, in order.
    const visits = buffers.map(() => new Map());
    steps.forEach((_, n) => {
      for (const [buffer, , cells] of touchesOf(n)) {
        for (const cell of cells) {
          const found = visits[buffer].get(cell);
          if (!found) visits[buffer].set(cell, [n]);
          else if (found.at(-1) !== n) found.push(n);
        }
      }
    });

    const rows = model.get("lines").map((line, n) => make("div", { class: "mlc-row" },
      make("span", { class: "mlc-number" }, String(n + 1)), drawLine(line)));
    const body = make("div", { class: "mlc-rows" }, ...rows);
    body.style.setProperty("--mlc-digits", String(rows.length).length);
    const code = control("div", {
      class: "mlc-pane mlc-code", tabindex: 0, role: "region", "aria-label": `Script of ${title}`,
    }, body);

    // The buffers.
    const status = make("span", { class: "mlc-said", role: "status" });
    const hint = "Point at an element, or reach a grid with Tab and use the arrow keys.";
    const say = (text) => { status.textContent = text || hint; };
    const describe = (buffer, number) => (row, column) => {
      const right = Math.ceil(buffer.grid[1] / buffer.grid[3]);
      const found = visits[number].get(row * right + column) ?? [];
      const where = elementText(buffer, row, column);
      if (!found.length) return `${where}: in no step`;
      const until = found.filter((n) => n <= current()).length;
      return `${where}: in ${plural(found.length, "step")}, first in step ${found[0]}; `
        + `${until} of them so far`;
    };
    const grids = [];
    const figures = buffers.map((buffer, n) => {
      const size = `${buffer.shape.join(" × ") || "scalar"} ${buffer.dtype}`;
      const [, , tall, wide] = buffer.grid;
      const cell = tall * wide > 1 ? `; a cell is ${tall} × ${wide}` : "";
      grids.push(drawGrid(buffer, `${buffer.name}, ${size}`, describe(buffer, n), say));
      return make("figure", { class: "mlc-figure" },
        make("figcaption", { class: "mlc-caption" },
          make("b", {}, buffer.name), ` ${size}${cell}`), grids[n].node);
    });

    // Where it is.
    const current = () => Math.max(0, Math.min(last, model.get("step")));
    const go = (n) => {
      model.set("step", Math.max(0, Math.min(last, n)));
      update();
    };
    const keep = () => model.save_changes();
    const stopAt = (n) => {
      pause();
      go(n);
      keep();
    };

    // Playing.
    let pace = PACES.find((speed) => last / speed <= SECONDS) ?? PACES.at(-1);
    let since = null; // when, and from which step on, it has been played
    const advance = (now) => {
      if (!since) return;
      if (!root.isConnected) return pause();
      const n = since.step + Math.floor(((now - since.time) * pace) / 1000);
      if (n !== current()) go(n);
      if (n >= last) stopAt(last);
      else requestAnimationFrame(advance);
    };
    const start = () => {
      since = { time: performance.now(), step: current() === last ? 0 : current() };
      go(since.step);
      showPlay();
      requestAnimationFrame(advance);
    };
    const pause = () => {
      if (!since) return;
      since = null;
      showPlay();
      keep();
    };
    const play = button("", () => (since ? pause() : start()), { class: "mlc-button mlc-play" });
    const showPlay = () => {
      play.textContent = since ? "❚❚" : "▶";
      play.setAttribute("aria-label", since ? "Pause" : "Play");
      play.disabled = still.matches && !since;
      play.title = still.matches ? "off: this machine asks for less motion; step or drag instead" : "";
    };
    const speed = control("select", {
      class: "mlc-select", "aria-label": "Steps a second",
      change: () => {
        pace = Number(speed.value);
        if (since) since = { time: performance.now(), step: current() };
      },
    }, ...PACES.map((value) => make("option", { value, selected: value === pace }, `${value} / s`)));

    const slider = control("input", {
      type: "range", class: "mlc-slider", min: 0, max: last, step: 1, "aria-label": "Step",
      input: () => { const n = Number(slider.value); pause(); go(n); }, change: keep,
    });
    const counter = make("output", { class: "mlc-step-count" });
    const where = make("div", { class: "mlc-where" });
    const widest = `${grouped(last)} / ${grouped(last)}`.length;
    counter.style.minWidth = `${widest}ch`;
    root.append(
      make("div", { class: "mlc-player" }, play,
        button("‹", () => stopAt(current() - 1), { "aria-label": "Previous step" }), slider,
        button("›", () => stopAt(current() + 1), { "aria-label": "Next step" }), counter, speed),
      where,
      make("div", { class: "mlc-nest" }, code,
        make("div", { class: "mlc-boards" }, ...figures)),
      make("div", { class: "mlc-foot" },
        status,
        make("span", { class: "mlc-legend", "aria-hidden": "true" },
          ...[[BLUE, "read"], [ORANGE, "written"], [BOTH, "both"]].map(([colour, word]) =>
            make("span", {}, make("i", { style: `background: rgb(${colour.join(" ")})` }), word)),
          make("span", {}, make("i", { class: "mlc-seen" }), "before")),
        model.get("note") && make("span", { class: "mlc-machine" }, `Shown ${model.get("note")}.`)));
    say("");

    const paint = (n) => {
      const colours = grids.map((_, number) => {
        const [, columns, , wide] = buffers[number].grid;
        const count = Math.ceil(columns / wide)
          * Math.ceil(buffers[number].grid[0] / buffers[number].grid[2]);
        return Array.from({ length: count }, (__, cell) => {
          const first = visits[number].get(cell)?.[0];
          return first !== undefined && first <= n ? [128, 128, 128, 0.2] : null;
        });
      });
      const trail = still.matches ? 0 : TRAIL;
      for (let k = Math.max(0, n - trail); k < n; k += 1) {
        const alpha = 0.2 + 0.35 * (1 - (n - k) / trail);
        for (const [buffer, written, cells] of touchesOf(k)) {
          for (const cell of cells) colours[buffer][cell] = [...(written ? ORANGE : BLUE), alpha];
        }
      }
      const now = buffers.map(() => new Map());
      for (const [buffer, written, cells] of touchesOf(n)) {
        for (const cell of cells) {
          const before = now[buffer].get(cell);
          now[buffer].set(cell, before && before !== written + 1 ? 3 : written + 1);
        }
      }
      now.forEach((cells, buffer) => cells.forEach((how, cell) => {
        colours[buffer][cell] = [...[null, BLUE, ORANGE, BOTH][how], 1];
      }));
      grids.forEach((grid, number) => grid.paint(colours[number]));
    };

    let drawn = -1;
    let marked = null;
    const update = () => {
      const n = current();
      if (n === drawn) return;
      drawn = n;
      paint(n);
      const [store, lanes, threads] = steps[n];
      const { line, loops: around } = stores[store];
      marked?.classList.remove("mlc-now");
      marked = rows[line] ?? null;
      marked?.classList.add("mlc-now");
      if (marked && (marked.offsetTop < code.scrollTop
        || marked.offsetTop + marked.offsetHeight > code.scrollTop + code.clientHeight)) {
        code.scrollTop = marked.offsetTop - code.clientHeight / 2;
      }
      const values = around.map((number, k) =>
        loopText(loops[number], steps[n][3 + k], lanes, threads));
      where.replaceChildren(...values.map((text) => make("span", {}, text)));
      where.hidden = !values.length;
      slider.value = n;
      slider.setAttribute("aria-valuetext", `step ${n}${values.length ? `: ${values.join(", ")}` : ""}`);
      counter.textContent = `${grouped(n)} / ${grouped(last)}`;
      for (const grid of grids) grid.again();
    };
    showPlay();
    update();
    const calm = () => { pause(); showPlay(); };
    still.addEventListener("change", calm);
    const forget = watch(model, ["step"], update);
    return () => { since = null; still.removeEventListener("change", calm); forget(); };
  },
};
