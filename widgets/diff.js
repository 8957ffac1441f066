// Two scripts side by side, from the operations that turn one into the other.

const CONTEXT = 3; // unchanged lines kept next to a change
const SIGNS = { "-": "−", "+": "+", "~": "~", "<": "↷", ">": "↶", "=": "" };
const SPOKEN = { "-": "removed", "+": "added", "~": "changed", "<": "moved", ">": "moved here" };

// Pairs of cells { line, kind, marks, link, shifted }, null where a side has no line.
const pairUp = ({ before, after, ops }) => {
  const pairs = [];
  let left = [];
  let right = [];
  const flush = () => {
    for (let n = 0; n < Math.max(left.length, right.length); n += 1) {
      pairs.push([left[n] ?? null, right[n] ?? null]);
    }
    left = [];
    right = [];
  };
  for (const [kind, ...rest] of ops) {
    const [i, j] = rest;
    if (kind === "-") left.push({ line: i, kind });
    else if (kind === "+") right.push({ line: i, kind });
    else if (kind === "<") left.push({ line: i, kind, link: `move${i}` });
    else if (kind === ">") right.push({ line: j, kind, link: `move${i}` });
    else {
      flush();
      for (let n = 0; n < (kind === "=" ? rest[2] : 1); n += 1) {
        const link = `line${i + n}`;
        const marks = kind === "~" ? rest.slice(2) : [[], []];
        const shifted = kind === "=" && before[i + n] !== after[j + n];
        pairs.push([
          { line: i + n, kind, marks: marks[0], link },
          { line: j + n, kind, marks: marks[1], link, shifted },
        ]);
      }
    }
  }
  flush();
  return pairs;
};

// Stretches of pairs to leave out: [first, past the last], each long enough to be worth it.
const quietRuns = (pairs, isKept) => {
  const near = new Set();
  pairs.forEach((pair, n) => {
    if (!isKept(pair)) return;
    for (let k = n - CONTEXT; k <= n + CONTEXT; k += 1) near.add(k);
  });
  const runs = [];
  for (let n = 0; n < pairs.length; n += 1) {
    if (near.has(n)) continue;
    const start = n;
    while (n < pairs.length && !near.has(n)) n += 1;
    if (n - start > CONTEXT) runs.push([start, n]);
  }
  return runs;
};

const drawCell = (cell, lines, numbers, query, place) => {
  const style = place && `--mlc-at: ${place}`;
  if (!cell) return make("div", { class: "mlc-row mlc-none", style });
  const { kind, line, marks, link, shifted } = cell;
  const spoken = SPOKEN[kind] && make("span", { class: "mlc-spoken" }, `${SPOKEN[kind]}: `);
  return make("div", { class: "mlc-row", "data-kind": kind, "data-link": link, style },
    make("span", { class: "mlc-number" }, String(line + 1)),
    make("span", { class: "mlc-sign", "aria-hidden": "true" }, shifted ? "⇥" : SIGNS[kind]),
    spoken, drawLine(lines[numbers[line]], { marks, query }));
};

const pane = (title, count, ...content) => control("div", {
  class: "mlc-pane mlc-code", tabindex: 0, role: "region", "aria-label": title,
  style: `--mlc-digits: ${String(count).length}`,
}, ...content);

// Pointing at a line points at its partner.
const tie = (rows) => {
  const point = (link) => {
    for (const row of rows.querySelectorAll(".mlc-linked")) row.classList.remove("mlc-linked");
    for (const row of link ? rows.querySelectorAll(`[data-link="${link}"]`) : []) {
      row.classList.add("mlc-linked");
    }
  };
  rows.addEventListener("mouseover", (event) =>
    point(event.target.closest("[data-link]")?.dataset.link));
  rows.addEventListener("mouseleave", () => point(null));
};

const scrollTo = (scroller, selector) => whenShown(scroller, () => {
  const first = scroller.querySelector(selector);
  const room = 4 * (first?.offsetHeight ?? 0);
  scroller.scrollTop = first ? Math.max(0, first.offsetTop - room) : 0;
});

// Draws before and after into `place`. `diff` is { before, after, ops }. Each side's lines follow
// each other in the document, so that one side alone can be selected; the style sheet puts them
// side by side, or, where there is no room, before and after in turn.
const drawDiff = (place, lines, diff, titles, query = "") => {
  const pairs = pairUp(diff);
  const isHit = (numbers, cell) =>
    cell && findAll(textOf(lines[numbers[cell.line]]), query).length > 0;
  const runs = quietRuns(pairs, ([left, right]) =>
    left?.kind !== "=" || isHit(diff.before, left) || isHit(diff.after, right));
  const sides = [diff.before, diff.after].map((numbers, side) => {
    const cellAt = (n) => drawCell(pairs[n][side], lines, numbers, query, n + 1);
    const rows = [];
    let at = 0;
    for (const [start, end] of [...runs, [pairs.length, pairs.length]]) {
      for (; at < start; at += 1) rows.push(cellAt(at));
      if (end === start) break;
      const count = plural(end - start, "unchanged line");
      const bar = button(`⋯ ${count}`, () => open(start), {
        class: "mlc-more", "aria-label": `Show ${count}`,
        ...(side && { tabindex: -1, "aria-hidden": "true" }), // one of the two is enough
      });
      const row = make("div", {
        class: "mlc-row", "data-run": start, style: `--mlc-at: ${start + 1}`,
      }, bar);
      row.open = () => row.replaceWith(...pairs.slice(start, end).map((_, k) => cellAt(start + k)));
      rows.push(row);
      at = end;
    }
    return make("div", { class: side ? "mlc-after" : "mlc-before" },
      make("div", { class: "mlc-side-title" }, titles[side]), ...rows);
  });
  const rows = make("div", { class: "mlc-pairs" }, ...sides);
  const longest = Math.max(diff.before.length, diff.after.length);
  const scroller = pane(`${titles[0]} and ${titles[1]}`, longest, rows);
  const open = (start) => {
    for (const row of rows.querySelectorAll(`[data-run="${start}"]`)) row.open();
    scroller.focus({ preventScroll: true }); // the button is gone
  };
  place.replaceChildren(scroller);
  tie(rows);
  scrollTo(scroller, query ? ".mlc-row:has(.mlc-hit)" : '.mlc-row[data-kind]:not([data-kind="="])');
};

// One script by itself, where there is nothing to compare it with.
const drawAlone = (place, lines, numbers, title, query = "") => {
  const rows = numbers.map((_, line) => drawCell({ line, kind: "=" }, lines, numbers, query));
  const scroller = pane(title, numbers.length, make("div", { class: "mlc-rows" }, ...rows));
  place.replaceChildren(make("div", { class: "mlc-side-title" }, title), scroller);
  scrollTo(scroller, ".mlc-row:has(.mlc-hit)");
};
