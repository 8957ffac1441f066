// The kernels as rows; the row that is pointed at, and its box in the graph, are `chosen`.
export default {
  render({ model, el }) {
    const kernels = model.get("rows");
    const nodes = model.get("nodes");
    const timed = nodes.flatMap((node, n) => node.seconds != null ? [n] : []);
    const numbers = nodes.length ? timed : kernels.map((_, n) => n);
    const total = kernels.reduce((sum, kernel) => sum + kernel.seconds, 0);
    const slowest = Math.max(0, ...kernels.map((kernel) => kernel.seconds));
    const root = panel(el, "ProfileView", `Profile of ${model.get("title")}`);
    const percent = (share) => share == null ? "?" : `${(100 * share).toFixed(1)}\u00a0%`;

    const rows = kernels.map(({ name, seconds, bytes, flops, share }, n) => {
      const choose = () => model.get("chosen") !== numbers[n] && put(model, "chosen", numbers[n]);
      return make("tr", { mouseenter: choose },
        make("th", { scope: "row" }, control("button", {
          type: "button", class: "mlc-name", focus: choose, click: choose }, name)),
        make("td", {}, duration(seconds)),
        make("td", { class: "mlc-wide-cell" }, make("div", { class: "mlc-meter", "aria-hidden": "true" },
          make("span", { style: `width: ${slowest ? (100 * seconds) / slowest : 0}%` }))),
        make("td", {}, percent(total ? seconds / total : null)),
        make("td", {}, grouped(bytes)),
        make("td", {}, flops == null ? "?" : grouped(flops)),
        make("td", {}, percent(share)));
    });
    const body = make("tbody", {}, ...rows);
    const sort = control("input", { type: "checkbox", change: () => {
      const order = kernels.map((_, n) => n);
      if (sort.checked) order.sort((a, b) => kernels[b].seconds - kernels[a].seconds);
      body.replaceChildren(...order.map((n) => rows[n]));
    } });
    const heads = ["kernel", "time", "", "of all", "bytes", "flops", "roofline"];
    root.append(
      make("div", { class: "mlc-head" },
        make("span", { class: "mlc-title" },
          `${plural(kernels.length, "kernel")}, ${duration(total)}; a call takes ${duration(model.get("call"))}`),
        make("label", { class: "mlc-choice" }, sort, "Slowest first")),
      control("div", { class: "mlc-pane mlc-profile-rows", tabindex: 0, role: "region", "aria-label": "Kernels" },
        make("table", { class: "mlc-figures mlc-profile" },
          make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
          body)));
    const update = () => rows.forEach((row, n) =>
      row.toggleAttribute("data-chosen", numbers[n] === model.get("chosen")));
    update();
    const undo = [watch(model, ["chosen"], update)];
    if (nodes.length) undo.push(showGraph(model, root));
    root.append(make("div", { class: "mlc-foot" }, make("span", {}, "Each kernel is timed by itself. "
      + "The roofline is the least time that the machine's peaks allow, over the kernel's; it is "
      + "more than 100\u00a0% where data come from a cache."),
    make("span", { class: "mlc-machine" }, model.get("machine"))));
    return () => undo.forEach((each) => each());
  },
};
