// Brings the widgets of a stored page to life: each is a module with `render({model, el})`, run
// against the state it had when the chapter was executed. There is no kernel behind it.
(async () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const applyTheme = () => {
    document.body.dataset.jpThemeLight = String(!dark.matches);
  };
  applyTheme();
  dark.addEventListener("change", applyTheme);

  class Model {
    constructor(state) {
      this.state = state;
      this.listeners = new Map();
    }
    get(name) {
      return this.state[name];
    }
    set(name, value) {
      const changes = typeof name === "string" ? { [name]: value } : name;
      const changed = Object.keys(changes).filter((key) => this.state[key] !== changes[key]);
      Object.assign(this.state, changes);
      for (const key of changed) this.trigger(`change:${key}`, this, this.state[key]);
      if (changed.length) this.trigger("change", this);
    }
    on(names, listener) {
      for (const name of names.split(/\s+/)) {
        if (!this.listeners.has(name)) this.listeners.set(name, []);
        this.listeners.get(name).push(listener);
      }
    }
    off(names, listener) {
      if (!names) return this.listeners.clear();
      for (const name of names.split(/\s+/)) {
        const kept = (this.listeners.get(name) ?? []).filter((l) => listener && l !== listener);
        this.listeners.set(name, kept);
      }
    }
    trigger(name, ...values) {
      for (const listener of [...(this.listeners.get(name) ?? [])]) listener(...values);
    }
    save_changes() {}
    send() {}
  }

  const place = document.getElementById("widget-state");
  const { modules, models } = place ? JSON.parse(place.textContent) : { modules: {}, models: {} };

  const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const withBuffers = ({ state, buffers }) => {
    for (const { path, data } of buffers) {
      const parent = path.slice(0, -1).reduce((value, key) => value[key], state);
      parent[path.at(-1)] = new DataView(decode(data).buffer);
    }
    return state;
  };

  const loaded = new Map();
  const load = (key) => {
    if (!loaded.has(key)) {
      const blob = new Blob([modules[key]], { type: "text/javascript" });
      loaded.set(key, import(URL.createObjectURL(blob)));
    }
    return loaded.get(key);
  };
  const styles = new Set();
  const addStyle = (css) => {
    if (!css || styles.has(css)) return;
    styles.add(css);
    const style = document.createElement("style");
    style.textContent = css;
    document.head.append(style);
  };

  const live = new Map(); // two views of one model move together
  const wake = (name) => {
    if (!live.has(name)) {
      live.set(name, (async () => {
        const module = await load(models[name].module);
        const widget = typeof module.default === "function"
          ? await module.default() : module.default ?? module;
        const model = new Model(withBuffers(models[name]));
        addStyle(model.get("_css"));
        await widget.initialize?.({ model });
        return { widget, model };
      })());
    }
    return live.get(name);
  };

  for (const stage of document.querySelectorAll("[data-widget]")) {
    const el = document.createElement("div");
    try {
      const { widget, model } = await wake(stage.dataset.widget);
      stage.before(el); // in the document, hidden by nothing, while it renders
      await widget.render({ model, el });
      stage.remove();
    } catch (error) {
      el.remove(); // the static form stays
      console.error(`widget ${stage.dataset.widget}:`, error);
    }
  }
  document.documentElement.dataset.widgets = "ready";
})();
