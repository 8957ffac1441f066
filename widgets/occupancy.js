export default {
  render({ model, el }) {
    const root = panel(el, "Occupancy", "Occupancy and a roofline estimate");
    for (const { title, devices } of model.get("kernels")) {
      const rows = devices.map((device) => {
        const share = device.warps / device.most;
        const percent = `${Math.round(100 * share)}\u00a0%`;
        const blocks = device.blocks ? plural(device.blocks, "block") : "no block fits";
        const times = device.times.map(([part, seconds]) =>
          make("span", { "data-most": part === device.bound }, `${part} ${duration(seconds)}`));
        return make("tr", {},
          make("th", { scope: "row" }, device.name),
          make("td", { class: "mlc-wide-cell" },
            make("div", { class: "mlc-meter", "aria-hidden": "true" },
              make("span", { style: `width: ${100 * share}%` })),
            make("div", { class: "mlc-small" }, make("b", {}, `${device.warps} of ${device.most} warps`),
              ` (${percent}): ${blocks}, limited by ${device.limit}`)),
          make("td", { class: "mlc-wide-cell" }, make("b", {}, `≥ ${device.seconds}`),
            make("div", { class: "mlc-small mlc-times" }, ...times)));
      });
      root.append(
        make("div", { class: "mlc-head" }, make("span", { class: "mlc-title" }, title)),
        make("div", { class: "mlc-scroll" }, make("table", { class: "mlc-figures mlc-occupancy" },
          make("thead", {}, make("tr", {}, ...["device", "warps of a multiprocessor", "time at least"]
            .map((text) => make("th", { scope: "col" }, text)))),
          make("tbody", {}, ...rows))));
    }
    root.append(make("div", { class: "mlc-foot" }, make("span", {},
      "A bar is full when a multiprocessor holds as many warps as it can. The time is the longest of "
      + "three: to compute, to move memory once, and to serve shared memory; registers are taken to "
      + "be few enough.")));
  },
};
