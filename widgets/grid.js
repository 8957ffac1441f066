// A buffer as a grid of cells: one pixel of a canvas each, enlarged by the style sheet.

const RED = [218, 54, 51];
const BLUE = [56, 122, 224];
const GREEN = [46, 160, 67];

// count, value, count, value, ... as one value each
const spreadRuns = (runs) => {
  const values = [];
  for (let n = 0; n < runs.length; n += 2) {
    for (let k = 0; k < runs[n]; k += 1) values.push(runs[n + 1]);
  }
  return values;
};

// "A[3, 5]" of a cell's first element; of a cell of several, the range along each axis.
const elementText = ({ name, shape, grid }, row, column) => {
  const [rows, columns, tall, wide] = grid;
  const size = shape.reduce((product, extent) => product * extent, 1);
  const indexOf = (r, c) => { // the last row of a folded vector may not be full
    let rest = Math.min(Math.min(r, rows - 1) * columns + Math.min(c, columns - 1), size - 1);
    return [...shape].reverse().map((size) => {
      const index = rest % size;
      rest = Math.floor(rest / size);
      return index;
    }).reverse();
  };
  const first = indexOf(row * tall, column * wide);
  const last = indexOf((row + 1) * tall - 1, (column + 1) * wide - 1);
  const parts = first.map((index, n) => index === last[n] ? `${index}` : `${index}…${last[n]}`);
  return `${name}[${parts.join(", ")}]`;
};

// Draws a grid. `describe(row, column)` is said of the cell that is pointed at, by mouse or arrow
// keys. Returns { node, paint }: `paint(colours)` takes [r, g, b, alpha] or null for each cell.
// `side` is about how long its longer side is, in pixels.
const drawGrid = (buffer, label, describe, say, side = 192) => {
  const [rows, columns, tall, wide] = buffer.grid;
  const [down, right] = [Math.ceil(rows / tall), Math.ceil(columns / wide)];
  const cell = Math.max(3, Math.min(18, Math.floor(side / Math.max(down, right))));
  const canvas = make("canvas", { class: "mlc-cells", width: right, height: down });
  const mark = make("div", { class: "mlc-cell-mark", hidden: true });
  const board = control("div", {
    class: "mlc-board", tabindex: 0, role: "application", "aria-roledescription": "grid",
    "aria-label": `${label}. Arrow keys move over its ${grouped(down * right)} cells.`,
    style: `--mlc-cell: ${cell}px; --mlc-right: ${right}; --mlc-down: ${down}`,
    "data-fine": cell < 6,
  }, canvas, mark);
  let here = null;
  const point = (row, column) => {
    here = [row, column];
    mark.hidden = false;
    mark.style.setProperty("--mlc-row", row);
    mark.style.setProperty("--mlc-column-at", column);
    say(describe(row, column));
  };
  const leave = () => {
    mark.hidden = true;
    say("");
  };
  board.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * down);
    const column = Math.floor(((event.clientX - box.left) / box.width) * right);
    if (row >= 0 && row < down && column >= 0 && column < right) point(row, column);
  });
  board.addEventListener("pointerleave", leave);
  board.addEventListener("blur", leave);
  board.addEventListener("focus", () => {
    if (board.matches(":focus-visible")) point(...(here ?? [0, 0]));
  });
  board.addEventListener("keydown", (event) => {
    const [row, column] = here ?? [0, 0];
    const to = {
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1],
      Home: [0, 0], End: [down - 1, right - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    point(Math.max(0, Math.min(down - 1, to[0])), Math.max(0, Math.min(right - 1, to[1])));
  });
  const context = canvas.getContext("2d");
  const image = context.createImageData(right, down);
  const paint = (colours) => {
    image.data.fill(0);
    colours.forEach((colour, n) => {
      if (colour) image.data.set([colour[0], colour[1], colour[2], 255 * colour[3]], 4 * n);
    });
    context.putImageData(image, 0, 0);
  };
  return { node: board, paint, again: () => here && !mark.hidden && say(describe(...here)) };
};
