export default {
  render({ model, el }) {
    const columns = model.get("columns");
    const loops = model.get("marked");
    const root = panel(el, "AsmView", `${model.get("title")}: script, LLVM and assembly`);
    const SCRIPT = 0;
    const ASSEMBLY = 2;
    const prefix = `mlc-line-${Math.random().toString(36).slice(2)}`;

    // Lines of the script that became code; each has its colour.
    const linked = [...new Set(columns.slice(1).flatMap(({ numbers }) => numbers))]
      .filter(Boolean).sort((a, b) => a - b);
    const hue = (line) => (linked.indexOf(line) * 137.5 + 205) % 360;
    const isLinked = (line) => linked.includes(line);

    const panes = columns.map(({ title, lines, numbers, more }, column) => {
      const rows = lines.map((line, n) => {
        const number = numbers[n];
        const live = isLinked(number);
        return make("div", {
          class: "mlc-row", id: `${prefix}-${column}-${n}`, role: "option",
          "aria-disabled": live ? null : "true", "aria-selected": "false",
          "data-line": live ? number : null, style: live ? `--mlc-hue: ${hue(number)}` : null,
        }, make("span", { class: "mlc-number" }, number ? String(number) : ""),
        make("span", { class: "mlc-gutter", "aria-hidden": "true" }), drawLine(line));
      });
      const digits = String(columns[SCRIPT].lines.length).length;
      const kind = column === SCRIPT ? "mlc-rows" : "mlc-rows mlc-listing";
      const body = make("div", { class: kind, style: `--mlc-digits: ${digits}` }, ...rows,
        more ? make("div", { class: "mlc-row mlc-cut" }, `… ${plural(more, "more line")}`) : null);
      const pane = control("div", {
        class: "mlc-pane mlc-code", tabindex: 0, role: "listbox", "aria-label": title,
      }, body);
      return { pane, rows, numbers, title, at: -1 };
    });

    // The innermost loops of the assembly.
    loops.forEach(({ lines, text }) => lines.forEach((n, k) => {
      const row = panes[ASSEMBLY].rows[n];
      if (!row) return;
      row.dataset.loop = k ? "" : "head";
      row.querySelector(".mlc-gutter").textContent = k ? "" : "↻";
      row.title = `innermost loop: ${text}`;
    }));

    const status = make("span", { class: "mlc-said", role: "status" });
    const hint = "Point at a line, or use Tab and the arrow keys; a click or Enter keeps it, Escape lets go.";
    const told = (line) => {
      const counts = panes.slice(1).map(({ numbers }) => numbers.filter((n) => n === line).length);
      return `line ${line}: ${plural(counts[0], "line")} of LLVM, ${plural(counts[1], "line")} of assembly`;
    };
    const rowsOf = new Map(linked.map((line) => [line, []]));
    for (const { rows, numbers } of panes) {
      rows.forEach((row, n) => rowsOf.get(numbers[n])?.push(row));
    }
    let lit = 0;
    const show = (line) => {
      if (line !== lit) {
        for (const row of rowsOf.get(lit) ?? []) row.classList.remove("mlc-linked");
        for (const row of rowsOf.get(line) ?? []) row.classList.add("mlc-linked");
        lit = line;
      }
      status.textContent = line > 0 ? told(line) : hint;
    };
    const bring = (pane, row) => {
      if (!row) return;
      const [top, bottom] = [row.offsetTop, row.offsetTop + row.offsetHeight];
      const room = 3 * row.offsetHeight; // what stands at the edge is not quite in view
      if (top < pane.scrollTop || bottom + room > pane.scrollTop + pane.clientHeight) {
        pane.scrollTop = top - pane.clientHeight / 3;
      }
    };
    const bringAll = (line, except) => panes.forEach((side) => {
      if (side !== except) bring(side.pane, side.rows[side.numbers.indexOf(line)]);
    });
    const pinned = () => (isLinked(model.get("pinned")) ? model.get("pinned") : 0);
    const pin = (line, side) => {
      put(model, "pinned", pinned() === line ? 0 : line);
      update();
      if (pinned()) bringAll(line, side);
    };

    for (const side of panes) {
      const { pane, rows, numbers } = side;
      const activate = (n) => {
        rows[side.at]?.classList.remove("mlc-active");
        side.at = n;
        const row = rows[n];
        if (!row) return pane.removeAttribute("aria-activedescendant");
        row.classList.add("mlc-active");
        pane.setAttribute("aria-activedescendant", row.id);
        bring(pane, row);
        show(numbers[n]);
        bringAll(numbers[n], side);
      };
      pane.addEventListener("mouseover", (event) => {
        const line = Number(event.target.closest("[data-line]")?.dataset.line ?? 0);
        show(line || pinned());
      });
      pane.addEventListener("mouseleave", () => show(pinned()));
      pane.addEventListener("click", (event) => {
        const row = event.target.closest("[data-line]");
        if (row) pin(Number(row.dataset.line), side);
      });
      pane.addEventListener("blur", () => { activate(-1); show(pinned()); });
      pane.addEventListener("keydown", (event) => {
        const live = rows.flatMap((row, n) => (row.dataset.line ? [n] : []));
        const next = live.find((n) => n > side.at) ?? live.at(-1);
        const previous = live.findLast((n) => n < side.at) ?? live[0];
        const move = { ArrowDown: next, ArrowUp: previous, Home: live[0], End: live.at(-1) };
        if (event.key in move) activate(move[event.key]);
        else if ((event.key === "Enter" || event.key === " ") && side.at >= 0) {
          pin(numbers[side.at], side);
        } else if (event.key === "Escape") {
          put(model, "pinned", 0);
          update();
        } else return;
        event.preventDefault();
      });
    }

    let loop = -1;
    const nextLoop = button("Next innermost loop", () => {
      loop = (loop + 1) % loops.length;
      const { lines, text } = loops[loop];
      const { pane, rows } = panes[ASSEMBLY];
      const row = rows[lines[0]];
      if (row) pane.scrollTop = row.offsetTop - pane.clientHeight / 4;
      status.textContent = `innermost loop ${loop + 1} of ${loops.length}: ${text}`;
      rows.forEach((one, n) => one.classList.toggle("mlc-at-loop", lines.includes(n)));
    });
    root.append(
      make("div", { class: "mlc-head" },
        make("span", { class: "mlc-title" },
          make("b", {}, model.get("title")), model.get("machine")),
        ...(loops.length ? [nextLoop] : [])),
      make("div", { class: "mlc-sides mlc-three" }, ...panes.map(({ pane, title }) =>
        make("div", { class: "mlc-side" },
          make("div", { class: "mlc-side-title" }, title), pane))),
      make("div", { class: "mlc-foot" }, status,
        make("span", { class: "mlc-legend", "aria-hidden": "true" },
          make("span", {}, make("i", { class: "mlc-loop-key" }, "↻"), "innermost loop"),
          make("span", { class: "mlc-code" },
            make("span", { class: "mlc-vector" }, "vector")))));

    const update = () => {
      const line = pinned();
      show(line);
      for (const [number, rows] of rowsOf) {
        for (const row of rows) row.setAttribute("aria-selected", String(number === line));
      }
    };
    update();
    const shown = whenShown(root, () => pinned() && bringAll(pinned()));
    const watched = watch(model, ["pinned"], update);
    return () => { shown(); watched(); };
  },
};
