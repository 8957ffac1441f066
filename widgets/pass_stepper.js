export default {
  render({ model, el }) {
    const lines = model.get("lines");
    const steps = model.get("steps");
    const last = steps.length - 1;
    const texts = lines.map(textOf);
    const root = panel(el, "PassStepper", "Steps of a transformation");

    const shownSteps = () => steps.map((_, n) => n).filter(
      (n) => n === 0 || steps[n].changed || !model.get("hide_unchanged"));
    const go = (n) => {
      put(model, "step", n);
      update();
    };
    const move = (by) => {
      const shown = shownSteps();
      const next = shown[shown.indexOf(current()) + by];
      if (next !== undefined) go(next);
    };
    const current = () => {
      const shown = shownSteps().filter((n) => n <= model.get("step"));
      return shown.at(-1) ?? 0;
    };

    // Which steps a text is in, and which of them change the lines with it.
    const linesWith = (step, query) => step.lines
      .map((number) => texts[number].trim()).filter((text) => findAll(text, query).length).join("\n");
    const search = (query) => {
      if (!query) return { has: [], changes: [] };
      const found = steps.map((step) => linesWith(step, query));
      const numbers = steps.map((_, n) => n);
      return {
        has: numbers.filter((n) => found[n]),
        changes: numbers.filter((n) => n > 0 && found[n] !== found[n - 1]),
      };
    };
    const jump = (n) => {
      if (n === undefined) return;
      if (!shownSteps().includes(n)) put(model, "hide_unchanged", false);
      go(n);
    };
    const following = (numbers) => numbers.find((n) => n > current()) ?? numbers[0];

    const slider = control("input", {
      type: "range", class: "mlc-slider", min: 0, step: 1, "aria-label": "Step",
      input: () => go(shownSteps()[Number(slider.value)]),
    });
    const back = button("‹", () => move(-1), { "aria-label": "Previous step" });
    const forth = button("›", () => move(1), { "aria-label": "Next step" });
    const rail = make("div", { class: "mlc-rail", "aria-hidden": "true" });
    const number = make("span", { class: "mlc-step-number" });
    const label = make("output", { class: "mlc-step-label" });
    const amount = make("span", { class: "mlc-amount" });
    const time = make("span", { class: "mlc-time", title: "how long the compiler took for this step" });
    const field = control("input", {
      type: "search", class: "mlc-search", placeholder: "Find in any step",
      "aria-label": "Find a text in any step", spellcheck: "false", autocomplete: "off",
      input: () => { put(model, "query", field.value); update(); },
      keydown: (event) => {
        if (event.key !== "Enter") return;
        const { has, changes } = search(model.get("query"));
        jump(current() === has[0] ? following(changes) : has[0]);
      },
    });
    const first = button("First step with it", () => jump(search(model.get("query")).has[0]));
    const change = button("Next change", () => jump(following(search(model.get("query")).changes)));
    const status = make("span", { class: "mlc-status", role: "status" });
    const hide = control("input", {
      type: "checkbox", change: () => { put(model, "hide_unchanged", hide.checked); update(); },
    });
    const counts = make("div", { class: "mlc-counts", role: "group", "aria-label": "Operators" });
    const place = make("div", { class: "mlc-place" });
    root.append(
      make("div", { class: "mlc-steps" }, back,
        make("div", { class: "mlc-track" }, slider, rail), forth, number),
      make("div", { class: "mlc-what" }, label, amount, time), counts,
      make("div", { class: "mlc-find" }, field, first, change, status,
        make("label", { class: "mlc-choice" }, hide, "Hide steps that change nothing")),
      place);

    const drawRail = (shown, has) => {
      rail.replaceChildren(...shown.map((n) => make("span", {
        class: "mlc-stop", title: `${n} · ${steps[n].name}`, "data-found": has.includes(n),
        "data-changed": steps[n].changed, "data-here": n === current(), click: () => go(n),
      })));
    };
    // How often each operator is called, and was before the step.
    const drawCounts = (operators) => {
      const total = operators.reduce((sum, [, , now]) => sum + now, 0);
      counts.hidden = !operators.length;
      counts.replaceChildren(make("span", {}, plural(total, "call")), ...operators.map(([name, was, now]) =>
        make("span", { "data-changed": was !== now }, `${name} ${was === now ? now : `${was} → ${now}`}`)));
    };
    const drawStep = (n, query) => {
      const step = steps[n];
      if (step.changed) {
        const diff = { before: steps[n - 1].lines, after: step.lines, ops: step.ops };
        drawDiff(place, lines, diff, ["before", "after"], query);
      } else {
        drawAlone(place, lines, step.lines, n ? "This step changes nothing" : "start", query);
      }
      const height = Math.max(place.offsetHeight, Number(place.dataset.height ?? 0));
      place.dataset.height = height; // what follows in the page stays where it is
      place.style.minHeight = `${height}px`;
    };

    let drawn = "";
    const update = () => {
      const shown = shownSteps();
      const n = current();
      const query = model.get("query");
      const { has, changes } = search(query);
      const step = steps[n];
      if (!step) return;
      slider.max = shown.length - 1;
      slider.value = shown.indexOf(n);
      slider.setAttribute("aria-valuetext", `${n} of ${last}: ${step.name}`);
      slider.disabled = shown.length < 2;
      back.disabled = n === shown[0];
      forth.disabled = n === shown.at(-1);
      number.textContent = `${n} / ${last}`;
      if (field.value !== query) field.value = query;
      hide.checked = model.get("hide_unchanged");
      first.disabled = !has.length;
      change.disabled = !changes.length;
      const changing = changes.length ? `changes in ${changes.join(", ")}` : "never changes";
      status.textContent = !query ? "" : has.length
        ? `in ${has.length} of ${plural(steps.length, "step")}; ${changing}` : "in no step";
      drawRail(shown, has);
      const key = JSON.stringify([n, query]);
      if (drawn === key) return;
      drawn = key;
      label.textContent = `${n} · ${step.name}`;
      amount.replaceChildren(...(step.changed ? [
        make("span", { class: "mlc-come" }, `+${step.come}`), " ",
        make("span", { class: "mlc-go" }, `−${step.go}`),
      ] : []));
      time.textContent = n && step.seconds > 0 ? `step took ${duration(step.seconds)}` : "";
      drawCounts(step.operators ?? []);
      drawStep(n, query);
    };
    update();
    return watch(model, ["step", "query", "hide_unchanged"], update);
  },
};
