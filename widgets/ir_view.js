// A line's text without strings and comments.
const codeOf = (line) =>
  line.filter((_, n) => n % 2 && line[n - 1] !== "s" && line[n - 1] !== "c").join("");

// The lines of each block: from the line that opens it, itself left out, to the last inside.
// What is still within brackets when its line ends goes on in the next.
const blocksOf = (lines, texts) => {
  const blocks = new Map();
  const codes = lines.map(codeOf);
  for (let head = 0, start = 0; head < lines.length; head += 1) {
    const code = codes.slice(start, head + 1).join(" ");
    const opened = (code.match(/[([{]/g) ?? []).length - (code.match(/[)\]}]/g) ?? []).length;
    if (opened > 0) continue;
    let end = head;
    for (let n = head + 1; code.trimEnd().endsWith(":") && n < texts.length; n += 1) {
      if (!texts[n].trim()) continue;
      if (indentOf(texts[n]) <= indentOf(texts[start])) break;
      end = n;
    }
    if (end > head) blocks.set(start, end);
    start = head + 1;
  }
  return blocks;
};

const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { readonly: true, style: "position: fixed; opacity: 0" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
};

export default {
  render({ model, el }) {
    const lines = model.get("lines");
    const title = model.get("title");
    const texts = lines.map(textOf);
    const blocks = blocksOf(lines, texts);
    const root = panel(el, "IRView", title || "Script");

    const toggles = new Map();
    const fold = (start, folded) => {
      const now = new Set(model.get("folded"));
      if (folded) now.add(start);
      else now.delete(start);
      put(model, "folded", [...now].sort((a, b) => a - b));
      update();
    };
    const onKey = (event) => {
      const shown = [...toggles.values()].filter((toggle) => toggle.offsetParent);
      const here = shown.indexOf(event.currentTarget);
      const start = Number(event.currentTarget.dataset.line);
      const move = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: shown.length - 1 };
      if (event.key in move) shown[move[event.key]]?.focus();
      else if (event.key === "ArrowLeft") fold(start, true);
      else if (event.key === "ArrowRight") fold(start, false);
      else return;
      event.preventDefault();
    };
    const onFocus = (event) => {
      for (const toggle of toggles.values()) toggle.tabIndex = toggle === event.target ? 0 : -1;
    };
    const rows = lines.map((line, n) => {
      const row = make("div", { class: "mlc-row" });
      row.append(make("span", { class: "mlc-number" }, String(n + 1)));
      const gutter = make("span", { class: "mlc-gutter" });
      if (blocks.has(n)) {
        const toggle = control("button", {
          type: "button", class: "mlc-fold", "data-line": n, tabindex: toggles.size ? -1 : 0,
          "aria-label": `Block at line ${n + 1}: ${texts[n].trim()}`,
          click: () => fold(n, !model.get("folded").includes(n)), keydown: onKey, focus: onFocus,
        });
        toggles.set(n, toggle);
        gutter.append(toggle);
      }
      row.append(gutter, drawLine(line));
      if (blocks.has(n)) {
        row.append(make("span", {
          class: "mlc-folded", "aria-hidden": "true", click: () => fold(n, false),
        }, plural(blocks.get(n) - n, "line")));
      }
      return row;
    });

    const status = make("span", { class: "mlc-status", role: "status" });
    const copy = button("Copy", async () => {
      await copyText(texts.join("\n"));
      status.textContent = "Copied";
      setTimeout(() => { status.textContent = ""; }, 1500);
    }, { "aria-label": "Copy the script" });
    const all = button("Fold all", () => {
      const open = [...blocks.keys()].some((n) => !model.get("folded").includes(n));
      put(model, "folded", open ? [...blocks.keys()] : []);
      update();
    });
    const head = make("div", { class: "mlc-head" });
    head.append(make("span", { class: "mlc-title" },
      title && make("b", {}, title), plural(lines.length, "line")));
    head.append(status, ...(blocks.size ? [all] : []), copy);
    const body = make("div", { class: "mlc-rows" }, ...rows);
    root.append(head, control("div", {
      class: "mlc-pane mlc-code", tabindex: 0, role: "region", "aria-label": title || "Script",
    }, body));
    body.style.setProperty("--mlc-digits", String(lines.length).length);

    const update = () => {
      const folded = model.get("folded").filter((n) => blocks.has(n));
      const hidden = new Set();
      for (const start of folded) {
        for (let n = start + 1; n <= blocks.get(start); n += 1) hidden.add(n);
      }
      rows.forEach((row, n) => {
        row.hidden = hidden.has(n);
        row.classList.toggle("mlc-closed", folded.includes(n));
      });
      for (const [n, toggle] of toggles) {
        toggle.setAttribute("aria-expanded", String(!folded.includes(n)));
      }
      all.textContent = folded.length === blocks.size ? "Unfold all" : "Fold all";
    };
    update();
    return watch(model, ["folded"], update);
  },
};
