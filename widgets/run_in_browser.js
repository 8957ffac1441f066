const ABSENT = "This browser has no WebGPU, or it is switched off, so the kernel does not run here; "
  + "what it should compute is below.";
const NO_HALF = "This browser's GPU has no 16-bit floats (shader-f16), which the kernel needs; "
  + "what it should compute is below.";
const LIMITS = [
  "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ", "maxComputeWorkgroupStorageSize", "maxStorageBuffersPerShaderStage",
]; // that kernels may need more of than every device has

const bytesOf = ({ bytes }, text) => {
  const data = new Uint8Array(Math.max(4, Math.ceil(bytes / 4) * 4)); // what can be copied
  if (text) data.set(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
  return data;
};

const half = (bits) => {
  const [sign, power, rest] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (power === 31) return rest ? NaN : sign * Infinity;
  return sign * (power ? 2 ** (power - 15) * (1 + rest / 1024) : 2 ** -14 * (rest / 1024));
};

const valuesOf = ({ dtype, bytes }, data) => {
  const part = data.buffer.slice(0, bytes);
  switch (dtype) {
    case "float32": return [...new Float32Array(part)];
    case "int32": return [...new Int32Array(part)];
    case "uint32": return [...new Uint32Array(part)];
    case "float16": return [...new Uint16Array(part)].map(half);
    default: throw new Error(`no values of ${dtype}`);
  }
};

const distance = (a, b) => {
  if (a === b || (Number.isNaN(a) && Number.isNaN(b))) return 0;
  const apart = Math.abs(a - b);
  return Number.isNaN(apart) ? Infinity : apart;
};

const brief = (value, digits) =>
  Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(digits)));

// Launches the kernels; the contents of the results' buffers.
const compute = async (device, model) => {
  const buffers = model.get("buffers");
  const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const memory = buffers.map((buffer) => {
    const data = bytesOf(buffer, buffer.data);
    const usage = STORAGE | COPY_SRC | COPY_DST;
    const place = device.createBuffer({ size: data.byteLength, usage });
    device.queue.writeBuffer(place, 0, data);
    return place;
  });
  const module = device.createShaderModule({ code: model.get("code") });
  const { messages } = await module.getCompilationInfo();
  const wrong = messages.find(({ type }) => type === "error");
  if (wrong) throw new Error(`line ${wrong.lineNum}: ${wrong.message}`);
  const encoder = device.createCommandEncoder();
  for (const { symbol, grid, bindings } of model.get("launches")) {
    const pipeline = await device.createComputePipelineAsync({
      layout: "auto", compute: { module, entryPoint: symbol },
    });
    const entries = bindings.map((binding) => ({ binding, resource: { buffer: memory[binding] } }));
    const layout = pipeline.getBindGroupLayout(0);
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
    pass.dispatchWorkgroups(...grid);
    pass.end();
  }
  const copies = model.get("results").map(({ buffer }) => {
    const { size } = memory[buffer];
    const copy = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
    encoder.copyBufferToBuffer(memory[buffer], 0, copy, 0, size);
    return copy;
  });
  device.queue.submit([encoder.finish()]);
  return Promise.all(copies.map(async (copy) => {
    await copy.mapAsync(GPUMapMode.READ);
    return new Uint8Array(copy.getMappedRange().slice(0));
  }));
};

const nameOf = ({ info = {} }) => info.description || info.device
  || [info.vendor, info.architecture].filter(Boolean).join(" ") || "an adapter without a name";

// Runs everything: { verdict, text, adapter, results }.
const runAll = async (model) => {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) return { verdict: "absent", text: ABSENT };
  const isHalf = model.get("code").startsWith("enable f16");
  if (isHalf && !adapter.features.has("shader-f16")) return { verdict: "absent", text: NO_HALF };
  const device = await adapter.requestDevice({
    requiredFeatures: isHalf ? ["shader-f16"] : [],
    requiredLimits: Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]])),
  });
  try {
    device.pushErrorScope("validation");
    const data = await compute(device, model);
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    const results = model.get("results").map(({ buffer, expected, bound, names }, n) => {
      const about = model.get("buffers")[buffer];
      const values = valuesOf(about, data[n]);
      const wanted = valuesOf(about, bytesOf(about, expected));
      const most = values.reduce((far, value, k) => Math.max(far, distance(value, wanted[k])), 0);
      return { name: about.name, values: values.slice(0, names.length), difference: most, bound };
    });
    const agrees = results.every(({ difference, bound }) => difference <= bound);
    return { verdict: agrees ? "agrees" : "differs", adapter: nameOf(adapter), results };
  } finally {
    device.destroy();
  }
};

export default {
  render({ model, el }) {
    const root = panel(el, "RunInBrowser", `Run ${model.get("title")} by WebGPU`);
    const buffers = model.get("buffers");
    const launches = model.get("launches");
    const status = make("div", { class: "mlc-verdict", role: "status" });
    const tables = make("div", { class: "mlc-scroll mlc-results" });

    const draw = (outcome) => {
      tables.replaceChildren(...model.get("results").map(({ buffer, expected, names }, n) => {
        const wanted = valuesOf(buffers[buffer], bytesOf(buffers[buffer], expected));
        const own = outcome?.results?.[n].values;
        const heads = ["", "expected", own ? "this browser" : null];
        return make("table", { class: "mlc-figures" },
          make("thead", {}, make("tr", {}, ...heads.map((text) =>
            text === null ? null : make("th", { scope: "col" }, text)))),
          make("tbody", {}, ...names.map((name, k) => make("tr", {},
            make("th", { scope: "row" }, name), make("td", {}, brief(wanted[k], 6)),
            own ? make("td", {}, brief(own[k], 6)) : null))));
      }));
    };
    const tell = ({ verdict, text, adapter, results = [] }) => {
      root.dataset.verdict = verdict;
      const words = results.map(({ name, difference, bound }) =>
        `${name} ${difference <= bound ? "agrees" : "differs"}: `
        + `largest difference ${brief(difference, 2)}, bound ${brief(bound, 2)}`);
      status.textContent = text ?? `On ${adapter}: ${words.join("; ")}.`;
    };
    const run = async () => {
      start.disabled = true;
      tell({ verdict: "running", text: "Running …" });
      const outcome = await runAll(model).catch((error) =>
        ({ verdict: "error", text: `WebGPU refuses the kernel: ${error.message}` }));
      start.disabled = outcome.verdict === "absent";
      draw(outcome);
      tell(outcome);
      put(model, "outcome", outcome);
    };
    const start = button("Run in this browser", run, { class: "mlc-button mlc-run" });
    root.append(
      make("div", { class: "mlc-head" },
        make("span", { class: "mlc-title" }, make("b", {}, "WebGPU"),
          launches.map(({ symbol, text }) => `${symbol}: ${text}`).join("; ")), start),
      status, tables,
      control("details", { class: "mlc-code-fold" }, make("summary", {}, "WGSL"),
        make("pre", { class: "mlc-code" }, model.get("code"))));
    draw(null);
    tell({ verdict: "ready", text: "Press the button: the kernel runs in this page." });
    if (!navigator.gpu) {
      start.disabled = true;
      tell({ verdict: "absent", text: ABSENT });
    }
  },
};
