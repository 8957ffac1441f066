const BANKS = 32;

export default {
  render({ model, el }) {
    return showRequests(model, el, "Banks", "Requests to shared memory", (access) => {
      const served = access.served.map(([lane, bank, wavefront, word, late]) =>
        ({ lane, bank, wavefront, word, late }));
      const rows = 1 + Math.max(...served.map(({ wavefront }) => wavefront));
      const cells = new Map();
      const facts = new Map();
      for (const each of served) {
        const cell = each.wavefront * BANKS + each.bank;
        cells.set(cell, [...(cells.get(cell) ?? []), each.lane]);
        facts.set(cell, each);
      }
      const isLate = access.sample.map((_, lane) => served.some((s) => s.lane === lane && s.late));
      const late = new Set(served.filter((each) => each.late).map(({ wavefront }) => wavefront));
      return {
        name: access.buffer, rows, columns: BANKS, cells, waste: new Set(), parts: "banks",
        caption: `${access.buffer}, a bank to a column, a wavefront to a row: `
          + `${plural(rows, "wavefront")}, ${late.size ? `${late.size} by bank conflicts` : "no bank conflict"}`,
        colourOf: (lane, cell) => ((cell === undefined ? isLate[lane] : facts.get(cell).late) ? RED : BLUE),
        laneText: (lane) => {
          const mine = served.filter((each) => each.lane === lane);
          if (!mine.length) return `lane ${lane} does not run`;
          const words = mine.map((each) => each.word);
          const what = words.length > 1 ? `words ${words[0]} … ${words.at(-1)}` : `word ${words[0]}`;
          const banks = mine.length > 1 ? `banks ${mine[0].bank} … ${mine.at(-1).bank}` : `bank ${mine[0].bank}`;
          return `lane ${lane}: ${what} of ${access.buffer}, ${banks}, `
            + `wavefront ${Math.max(...mine.map((each) => each.wavefront))}`
            + `${isLate[lane] ? ", after others of the bank" : ""}`;
        },
        cellText: (cell) => {
          const where = `bank ${cell % BANKS}, wavefront ${Math.floor(cell / BANKS)}`;
          const lanes = cells.get(cell);
          if (!lanes) return `${where}: idle`;
          return `${where}: word ${facts.get(cell).word} for lane${lanes.length > 1 ? "s" : ""} `
            + `${severalText(lanes)}${facts.get(cell).late ? ": a bank conflict" : ""}`;
        },
      };
    });
  },
};
