const LINE = 128; // bytes to a row
const SECTOR = 32;

export default {
  render({ model, el }) {
    return showRequests(model, el, "Transactions", "Requests to global memory", (access) => {
      const unit = Math.min(4, access.size); // bytes to a cell
      const columns = LINE / unit;
      const wanted = access.sample.map((at) => at < 0 ? []
        : Array.from({ length: access.size / unit }, (_, k) => at / unit + k));
      const lines = [...new Set(wanted.flat().map((at) => Math.floor(at / columns)))].sort((a, b) => a - b);
      const cellOf = (at) => lines.indexOf(Math.floor(at / columns)) * columns + at % columns;
      const bytesAt = (cell) => (lines[Math.floor(cell / columns)] * columns + cell % columns) * unit;
      const cells = new Map();
      wanted.forEach((parts, lane) => parts.forEach((at) =>
        cells.set(cellOf(at), [...(cells.get(cellOf(at)) ?? []), lane])));
      const sectors = new Set(wanted.flat().map((at) => Math.floor((at * unit) / SECTOR)));
      const waste = new Set();
      for (let cell = 0; cell < lines.length * columns; cell += 1) {
        if (sectors.has(Math.floor(bytesAt(cell) / SECTOR))) waste.add(cell);
      }
      const moved = sectors.size * SECTOR;
      const used = cells.size * unit;
      const place = (at) => `bytes ${grouped(at)} … ${grouped(at + access.size - 1)} of ${access.buffer}`;
      return {
        name: access.buffer, rows: lines.length, columns, cells, waste, parts: "sectors",
        caption: `${access.buffer}, a line of 128 bytes to a row: ${plural(sectors.size, "sector")} `
          + `moved, ${used} of ${moved} bytes used`,
        colourOf: (lane) => hue(lane / (WARP - 1)),
        laneText: (lane) => access.sample[lane] < 0 ? `lane ${lane} does not run`
          : `lane ${lane} ${access.name.split(" ")[0]}s ${place(access.sample[lane])}`,
        cellText: (cell) => {
          const at = bytesAt(cell);
          const lanes = cells.get(cell);
          const sector = `sector ${grouped(Math.floor(at / SECTOR))}`;
          if (lanes) {
            return `bytes ${grouped(at)} … ${grouped(at + unit - 1)}, ${sector}: `
              + `lane${lanes.length > 1 ? "s" : ""} ${severalText(lanes)}`;
          }
          return waste.has(cell) ? `bytes ${grouped(at)} … ${grouped(at + unit - 1)}, ${sector}: moved for no lane`
            : `${sector} is not moved`;
        },
      };
    });
  },
};
