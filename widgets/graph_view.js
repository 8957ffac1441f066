export default {
  render({ model, el }) {
    const root = panel(el, "GraphView", `Graph of ${model.get("title")}`);
    return showGraph(model, root);
  },
};
