// The accesses of a profile as a table, and the request of the chosen one: its lanes in a row, and
// below them what `boardOf(access)` makes of it: { rows, columns, cells, waste, colourOf, laneText,
// cellText, name, caption }. `cells` has the lanes of each cell, `waste` are cells that are moved
// for no lane.
const WASTE = [128, 128, 128, 0.34];
const SIDE = 448; // of a board, px

const showRequests = (model, el, kind, label, boardOf) => {
  const accesses = model.get("accesses");
  const root = panel(el, kind, `${label}: ${model.get("title")}`);
  const status = make("span", { class: "mlc-said", role: "status" });
  const hint = "Point at a lane or below, or reach a row of cells with Tab and use the arrow keys.";
  const stage = make("div", { class: "mlc-request" });
  const current = () => Math.max(0, Math.min(accesses.length - 1, model.get("chosen")));

  const names = accesses.map((access, n) => button(access.name, () => {
    put(model, "chosen", n);
    update();
  }, { class: "mlc-name", title: access.text }));
  const rows = accesses.map((access, n) => make("tr", {},
    make("th", { scope: "row" }, names[n]),
    make("td", { class: "mlc-line" }, access.where),
    ...access.row.map((text) => make("td", {}, text))));
  const heads = ["access", "line", ...model.get("heading")];
  root.append(
    make("div", { class: "mlc-head" }, make("span", { class: "mlc-title" }, model.get("title"))),
    make("div", { class: "mlc-scroll" }, make("table", { class: "mlc-figures mlc-accesses" },
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows))),
    stage, make("div", { class: "mlc-foot" }, status));

  const update = () => {
    const access = accesses[current()];
    const board = boardOf(access);
    let chosen = null; // the lanes that are pointed at
    const say = (text) => {
      status.textContent = text || hint;
      if (!text) chosen = null;
      paint();
    };
    const bright = (lanes) => (!chosen || lanes.some((lane) => chosen.has(lane)) ? 1 : 0.16);
    const strip = drawGrid({ name: "lane", shape: [WARP], grid: [1, WARP, 1, 1] },
      "the lanes of the warp", (_, lane) => {
        chosen = new Set([lane]);
        return board.laneText(lane);
      }, say, SIDE);
    const grid = drawGrid({ name: board.name, shape: [], grid: [board.rows, board.columns, 1, 1] },
      board.caption, (row, column) => {
        const at = row * board.columns + column;
        chosen = new Set(board.cells.get(at) ?? []);
        return board.cellText(at);
      }, say, SIDE);
    grid.node.dataset.parts = board.parts;
    const paint = () => {
      strip.paint(access.sample.map((at, lane) =>
        at < 0 ? null : [...board.colourOf(lane), bright([lane])]));
      grid.paint(Array.from({ length: board.rows * board.columns }, (_, at) => {
        const lanes = board.cells.get(at);
        if (lanes) return [...board.colourOf(lanes[0], at), bright(lanes)];
        return board.waste.has(at) ? WASTE : null;
      }));
    };
    rows.forEach((row, n) => row.toggleAttribute("data-chosen", n === current()));
    names.forEach((name, n) => name.setAttribute("aria-pressed", String(n === current())));
    const figure = (title, node) => make("figure", { class: "mlc-figure" },
      make("figcaption", { class: "mlc-caption" }, title), node);
    stage.replaceChildren(
      make("div", { class: "mlc-where" }, `${access.where ? `${access.where}: ` : ""}${access.text}`),
      make("div", { class: "mlc-boards" },
        figure("the 32 lanes of the first warp that runs it", strip.node),
        figure(board.caption, grid.node)));
    say("");
  };
  update();
  return watch(model, ["chosen"], update);
};
