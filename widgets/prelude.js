// Shared by all views; stands before each view's own source in one module.

const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
};

// Something to operate: the notebook leaves its keys alone.
const control = (tag, attributes, ...children) =>
  make(tag, { "data-lm-suppress-shortcuts": "true", ...attributes }, ...children);

const button = (label, click, attributes = {}) =>
  control("button", { type: "button", class: "mlc-button", click, ...attributes }, label);

const panel = (el, kind, label) => {
  const root = make("div", {
    class: "mlc-widget", "data-mlc": kind, role: "group", "aria-label": label,
  });
  el.append(root);
  return root;
};

// Calls `update` whenever one of the model's values changes; returns what undoes that.
const watch = (model, names, update) => {
  const events = names.map((name) => `change:${name}`);
  for (const event of events) model.on(event, update);
  return () => events.forEach((event) => model.off(event, update));
};

// Calls `act` each time `node` gets a size: a view is drawn before it is in the page, and what a
// notebook takes out of the page and puts back has lost the place that it was scrolled to.
const whenShown = (node, act) => {
  let height = 0;
  const observer = new ResizeObserver(([entry]) => {
    if (entry.contentRect.height && !height) act();
    height = entry.contentRect.height;
  });
  observer.observe(node);
  return () => observer.disconnect();
};

const put = (model, name, value) => {
  model.set(name, value);
  model.save_changes();
};

// A line is [class, text, class, text, ...].
const textOf = (line) => line.filter((_, n) => n % 2).join("");
const indentOf = (text) => text.length - text.trimStart().length;

// The places of `query` in a text; capitals count when the query has some.
const findAll = (text, query) => {
  if (!query) return [];
  const within = query === query.toLowerCase() ? text.toLowerCase() : text;
  const places = [];
  for (let at = within.indexOf(query); at >= 0; at = within.indexOf(query, at + query.length)) {
    places.push(at, at + query.length);
  }
  return places;
};

const inside = (ranges, at) => {
  for (let n = 0; n < ranges.length; n += 2) {
    if (ranges[n] <= at && at < ranges[n + 1]) return true;
  }
  return false;
};

// A line in its colours, with changed columns (`marks`) and found ones (`query`) pointed out.
const drawLine = (line, { marks = [], query = "" } = {}) => {
  const text = textOf(line);
  const indent = indentOf(text);
  const hits = findAll(text, query);
  const cuts = [indent, ...marks, ...hits];
  const box = make("span", { class: "mlc-text", style: indent > 0 && `--mlc-columns: ${indent}` });
  if (indent) box.append(make("span", { class: "mlc-indent" }, text.slice(0, indent)));
  let at = 0;
  for (let n = 0; n < line.length; n += 2) {
    const end = at + line[n + 1].length;
    const stops = [at, ...cuts.filter((cut) => at < cut && cut < end), end];
    stops.sort((a, b) => a - b);
    for (let k = 0; k + 1 < stops.length; k += 1) {
      const [from, to] = [stops[k], stops[k + 1]];
      if (from < indent || from === to) continue;
      const names = [line[n]];
      if (inside(marks, from)) names.push("mlc-word");
      if (inside(hits, from)) names.push("mlc-hit");
      const name = names.join(" ").trim();
      const part = text.slice(from, to);
      box.append(name ? make("span", { class: name }, part) : part);
    }
    at = end;
  }
  return box;
};

const grouped = (count) => count.toLocaleString("en-US");

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

const UNITS = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]];
const unitFor = (seconds) => UNITS.find(([, size]) => seconds >= size) ?? UNITS[3];
const inUnit = (seconds, [name, size]) => `${Number((seconds / size).toPrecision(3))} ${name}`;
const duration = (seconds) => (seconds > 0 ? inUnit(seconds, unitFor(seconds)) : "0 s");
