const SEEN = [128, 128, 128, 0.28];

const spread = (spans) => {
  const values = [];
  for (let n = 0; n < spans.length; n += 3) {
    for (let k = 0; k < spans[n]; k += 1) values.push(spans[n + 1] + k * spans[n + 2]);
  }
  return values;
};

export default {
  render({ model, el }) {
    const [kernels, buffers, statements, steps] =
      ["kernels", "buffers", "statements", "steps"].map((name) => model.get(name));
    const patterns = model.get("patterns").map(spread);
    const root = panel(el, "Threads", `Threads of ${model.get("title")}`);
    const clamp = (value, last) => Math.max(0, Math.min(last, value));
    const step = () => clamp(model.get("step"), steps.length - 1);
    const kernelOf = (n) => kernels[steps[n][0]];

    // What a step's touches are: its buffer, whether it writes, and an element for each thread.
    const touchesOf = (n, block) => {
      const touches = [];
      for (let at = 2; at < steps[n].length;) {
        const [buffer, written, blocks] = steps[n].slice(at, at + 3);
        const [pattern, lowest] = steps[n].slice(at + 3 + 2 * block, at + 5 + 2 * block);
        const elements = block < blocks && pattern >= 0
          ? patterns[pattern].map((e) => (e < 0 ? -1 : e + lowest)) : [];
        touches.push({ buffer, written, elements });
        at += 3 + 2 * blocks;
      }
      return touches;
    };
    // How many blocks of its kernel are there to see.
    const shownBlocks = (n) =>
      Math.max(1, ...steps.filter((other) => other[0] === steps[n][0]).map((other) => other[4] ?? 1));
    const block = () => clamp(model.get("block"), shownBlocks(step()) - 1);

    const status = make("span", { class: "mlc-said", role: "status" });
    const hint = "Point at an element or a thread, or reach a grid with Tab and use the arrow keys.";
    let now = []; // the touches that are shown
    let chosen = null; // the threads that are pointed at
    const choose = (threads, text) => {
      chosen = threads;
      paint();
      return text;
    };
    const say = (text) => {
      status.textContent = text || hint;
      if (!text && chosen) choose(null);
    };
    const nameOf = (thread) => placeText(thread, kernelOf(step()).block);
    const elementAt = (buffer, element) =>
      elementText({ ...buffer, grid: [buffer.grid[0], buffer.grid[1], 1, 1] },
        Math.floor(element / buffer.grid[1]), element % buffer.grid[1]);
    const verb = ({ written }, several) => (written ? "store" : "load") + (several ? "" : "s");

    const describeElement = (number) => (row, column) => {
      const buffer = buffers[number];
      const element = (origins[number][0] + row) * buffer.grid[1] + origins[number][1] + column;
      const all = new Set();
      if (element >= buffer.shape.reduce((a, b) => a * b, 1)) return choose(all, "no element");
      const parts = now.filter((touch) => touch.buffer === number).flatMap((touch) => {
        const threads = touch.elements.flatMap((e, thread) => (e === element ? [thread] : []));
        threads.forEach((thread) => all.add(thread));
        if (!threads.length) return [];
        const noun = threads.length === 1 ? "thread" : "threads";
        return [`${noun} ${severalText(threads.map(nameOf))} ${verb(touch, threads.length > 1)} it`];
      });
      const said = parts.length ? [...new Set(parts)].join(", ") : "no thread in this step";
      return choose(all, `${elementAt(buffer, element)}: ${said}`);
    };
    const describeThread = (row, column) => {
      const thread = row * WARP + column;
      const [x, y, z] = kernelOf(step()).block;
      if (thread >= x * y * z) return choose(new Set(), "no thread: the last warp is not full");
      const parts = now.filter((touch) => touch.elements[thread] >= 0).map((touch) =>
        `${verb(touch)} ${elementAt(buffers[touch.buffer], touch.elements[thread])}`);
      const where = `thread ${nameOf(thread)}, lane ${column} of warp ${row}`;
      return choose(new Set([thread]), `${where}: ${[...new Set(parts)].join(", ") || "waits"}`);
    };

    const boards = buffers.map((buffer, n) => {
      const [rows, columns] = buffer.corner;
      const size = `${buffer.shape.join(" × ") || "scalar"} ${buffer.dtype}`
        + `${buffer.scope.startsWith("shared") ? ", shared" : ""}`;
      const cut = { ...buffer, grid: [rows, columns, 1, 1] };
      const grid = drawGrid(cut, `${buffer.name}, ${size}`, describeElement(n), say);
      const action = make("span", { class: "mlc-action" });
      const part = make("span", {});
      return { grid, action, part, node: make("figure", { class: "mlc-figure" },
        make("figcaption", { class: "mlc-caption" },
          make("b", {}, buffer.name), ` ${size} `, part, action), grid.node) };
    });

    // The threads of a block, a warp to a row.
    const most = Math.max(...kernels.map(({ block: [x, y, z] }) => x * y * z));
    const lanes = { name: "threads", shape: [most], grid: [Math.ceil(most / WARP), WARP, 1, 1] };
    const threads = drawGrid(lanes, "threads of the block, a warp to a row", describeThread, say);

    const keep = () => model.save_changes();
    const go = (name, value) => { model.set(name, value); update(); };
    const time = rangeOf("Step", steps.length - 1, {
      input: () => go("step", Number(time.value)), change: keep });
    const place = rangeOf("Block", 0, {
      input: () => go("block", Number(place.value)), change: keep });
    const counter = make("output", { class: "mlc-step-count" });
    const which = make("output", { class: "mlc-step-count" });
    const stepBy = (by, label, text) => button(text, () => {
      go("step", clamp(step() + by, steps.length - 1));
      keep();
    }, { "aria-label": label });
    const statement = make("div", { class: "mlc-where" });
    const note = model.get("note");
    root.append(
      make("div", { class: "mlc-sliders" },
        make("span", { class: "mlc-slider-row" }, make("span", {}, "step"),
          stepBy(-1, "Previous step", "‹"), time, stepBy(1, "Next step", "›"), counter),
        make("span", { class: "mlc-slider-row" }, make("span", {}, "block"), place, which)),
      statement,
      make("div", { class: "mlc-boards" },
        make("figure", { class: "mlc-figure" },
          make("figcaption", { class: "mlc-caption" },
            make("b", {}, "threads"), " of the block, a warp to a row"), threads.node),
        ...boards.map(({ node }) => node)),
      make("div", { class: "mlc-foot" }, status,
        note ? make("span", { class: "mlc-machine" }, `Shown: ${note}.`) : null));

    const paint = () => {
      const total = kernelOf(step()).block.reduce((a, b) => a * b);
      const colourOf = (thread) => [...hue(thread / Math.max(1, total - 1)),
        !chosen || chosen.has(thread) ? 1 : 0.16];
      const busy = new Set();
      boards.forEach(({ grid, action, part }, number) => {
        const [rows, columns] = buffers[number].corner;
        const [down, right] = buffers[number].grid;
        const [top, left] = origins[number];
        const colours = new Array(rows * columns).fill(null);
        const put = (element, colour) => {
          const [row, column] = [Math.floor(element / right) - top, element % right - left];
          const isInside = row >= 0 && row < rows && column >= 0 && column < columns;
          if (element >= 0 && isInside) colours[row * columns + column] = colour;
        };
        part.textContent = rows < down || columns < right
          ? `from ${elementAt(buffers[number], top * right + left)} on ` : "";
        past[number].forEach((element) => put(element, SEEN));
        const mine = now.filter((touch) => touch.buffer === number);
        for (const { elements } of mine) {
          for (let thread = elements.length - 1; thread >= 0; thread -= 1) {
            if (elements[thread] >= 0) busy.add(thread);
            put(elements[thread], colourOf(thread));
          }
          if (chosen) chosen.forEach((thread) => put(elements[thread] ?? -1, colourOf(thread)));
        }
        action.textContent = [...new Set(mine.map((touch) => `${verb(touch)}`))].sort().join(", ");
        grid.paint(colours);
      });
      threads.paint(Array.from({ length: lanes.grid[0] * WARP }, (_, thread) =>
        thread >= total ? null : busy.has(thread) ? colourOf(thread) : SEEN));
    };

    let past = []; // the elements of each buffer that steps before have touched
    let origins = []; // the row and column of the first element that is drawn of each buffer
    // Of a large buffer, the part where the block was last.
    const originOf = ({ grid, corner }, elements) => [0, 1].map((axis) => {
      const places = elements.filter((e) => e >= 0)
        .map((e) => (axis ? e % grid[1] : Math.floor(e / grid[1])));
      const first = Math.floor(Math.min(...places) / corner[axis]) * corner[axis];
      return places.length ? Math.min(first, grid[axis] - corner[axis]) : 0;
    });
    const update = () => {
      const [n, b] = [step(), block()];
      const { name, grid } = kernelOf(n);
      time.value = n;
      time.disabled = steps.length === 1;
      place.max = shownBlocks(n) - 1;
      place.value = b;
      place.disabled = shownBlocks(n) === 1;
      counter.textContent = `${n} / ${steps.length - 1}`;
      which.textContent = `${placeText(b, grid)} of ${grid.slice(0, grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1).join(" × ")}`;
      time.setAttribute("aria-valuetext", `step ${n}: ${statements[steps[n][1]]}`);
      place.setAttribute("aria-valuetext", `block ${placeText(b, grid)}`);
      statement.textContent = `${kernels.length > 1 ? `${name}: ` : ""}${statements[steps[n][1]]}`;
      now = touchesOf(n, b);
      past = buffers.map(() => new Set());
      const latest = buffers.map(() => []);
      for (let k = 0; k < n; k += 1) {
        if (steps[k][0] === steps[n][0]) {
          for (const { buffer, elements } of touchesOf(k, b)) {
            elements.forEach((element) => past[buffer].add(element));
            latest[buffer] = elements;
          }
        }
      }
      for (const { buffer, elements } of now) latest[buffer] = elements;
      origins = buffers.map((buffer, k) => originOf(buffer, latest[k]));
      paint();
      [threads, ...boards.map(({ grid: board }) => board)].forEach((board) => board.again());
    };
    say("");
    update();
    return watch(model, ["step", "block"], update);
  },
};
