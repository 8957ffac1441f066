export default {
  render({ model, el }) {
    const titles = model.get("titles");
    const diff = model.get("diff");
    const root = panel(el, "IRDiff", `${titles[0]} and ${titles[1]}`);
    const place = make("div", { class: "mlc-place" });
    root.append(place);
    if (diff.before.join() === diff.after.join()) {
      root.prepend(make("div", { class: "mlc-note" }, "No line differs."));
      drawAlone(place, model.get("lines"), diff.after, titles[1]);
    } else {
      drawDiff(place, model.get("lines"), diff, titles);
    }
  },
};
