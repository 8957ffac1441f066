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

const drawCell = (cell, lines, numbers, query) => {
  if (!cell) return make("div", { class: "mlc-row mlc-none" });
  const { kind, line, marks, link, shifted } = cell;
  const spoken = SPOKEN[kind] && make("span", { class: "mlc-spoken" }, `${SPOKEN[kind]}: `);
  return make("div", { class: "mlc-row", "data-kind": kind, "data-link": link },
    make("span", { class: "mlc-number" }, String(line + 1)),
    make("span", { class: "mlc-sign", "aria-hidden": "true" }, shifted ? "⇥" : SIGNS[kind]),
    spoken, drawLine(lines[numbers[line]], { marks, query }));
};

const pane = (title, rows, digits) => {
  const body = make("div", { class: "mlc-rows", style: `--mlc-digits: ${digits}` }, ...rows);
  return control("div", {
    class: "mlc-pane mlc-code", tabindex: 0, role: "region", "aria-label": title,
  }, body);
};

// Both panes scroll as one, and pointing at a line points at its partner.
const tie = (panes) => {
  const rowsOf = (selector) => panes.flatMap((one) => [...one.querySelectorAll(selector)]);
  const point = (link) => {
    for (const row of rowsOf(".mlc-linked")) row.classList.remove("mlc-linked");
    for (const row of link ? rowsOf(`[data-link="${link}"]`) : []) row.classList.add("mlc-linked");
  };
  let active = null; // the other pane follows, and does not pull back where it is shorter
  for (const [one, other] of [panes, [...panes].reverse()]) {
    for (const name of ["pointerenter", "pointerdown", "focusin"]) {
      one.addEventListener(name, () => { active = one; });
    }
    one.addEventListener("scroll", () => {
      if (active !== one) return;
      other.scrollTop = one.scrollTop;
      other.scrollLeft = one.scrollLeft;
    });
    one.addEventListener("mouseover", (event) =>
      point(event.target.closest("[data-link]")?.dataset.link));
    one.addEventListener("mouseleave", () => point(null));
  }
};

const scrollTo = (panes, rows) => {
  const top = rows.length ? Math.min(...rows.map((row) => row.offsetTop)) : 0;
  for (const p of panes) p.scrollTop = Math.max(0, top - 4 * (rows[0]?.offsetHeight ?? 0));
};

// Draws before and after into `place`. `diff` is { before, after, ops }.
const drawDiff = (place, lines, diff, titles, query = "") => {
  const pairs = pairUp(diff);
  const isHit = (numbers, cell) =>
    cell && findAll(textOf(lines[numbers[cell.line]]), query).length > 0;
  const runs = quietRuns(pairs, ([left, right]) =>
    left?.kind !== "=" || isHit(diff.before, left) || isHit(diff.after, right));
  const digits = String(Math.max(diff.before.length, diff.after.length)).length;
  const sides = [diff.before, diff.after].map((numbers, side) => {
    const rows = [];
    let at = 0;
    for (const [start, end] of [...runs, [pairs.length, pairs.length]]) {
      for (; at < start; at += 1) rows.push(drawCell(pairs[at][side], lines, numbers, query));
      if (end === start) break;
      const count = plural(end - start, "unchanged line");
      const hidden = pairs.slice(start, end);
      const open = () => {
        place.querySelectorAll(`[data-run="${start}"]`).forEach((bar) => {
          const which = Number(bar.dataset.side);
          const shown = which ? diff.after : diff.before;
          bar.replaceWith(...hidden.map((pair) => drawCell(pair[which], lines, shown, query)));
        });
        place.querySelector(".mlc-pane").focus({ preventScroll: true }); // the button is gone
      };
      const label = `⋯ ${count}`;
      const bar = button(label, open, {
        class: "mlc-more", "aria-label": `Show ${count}`,
        ...(side && { tabindex: -1, "aria-hidden": "true" }), // one of the two is enough
      });
      rows.push(make("div", { class: "mlc-row", "data-run": start, "data-side": side }, bar));
      at = end;
    }
    return pane(titles[side], rows, digits);
  });
  place.replaceChildren(make("div", { class: "mlc-sides" },
    ...sides.map((side, n) => make("div", { class: "mlc-side" },
      make("div", { class: "mlc-side-title" }, titles[n]), side))));
  tie(sides);
  const changed = sides.flatMap((side) => [...side.querySelectorAll(
    query ? ".mlc-row:has(.mlc-hit)" : '.mlc-row[data-kind]:not([data-kind="="])')]);
  scrollTo(sides, changed);
};

// One script by itself, where there is nothing to compare it with.
const drawAlone = (place, lines, numbers, title, query = "") => {
  const digits = String(numbers.length).length;
  const rows = numbers.map((_, line) => drawCell({ line, kind: "=" }, lines, numbers, query));
  const only = pane(title, rows, digits);
  place.replaceChildren(make("div", { class: "mlc-side" },
    make("div", { class: "mlc-side-title" }, title), only));
  scrollTo([only], [...only.querySelectorAll(".mlc-row:has(.mlc-hit)")]);
};
