// Finds words in the text of all chapters, which is in the page: nothing is fetched.
(() => {
  const MOST = 60; // results shown
  const AROUND = 70; // characters before and after what was found
  const pages = JSON.parse(document.getElementById("search-index").textContent);
  const field = document.querySelector("main input[name=q]");
  const status = document.getElementById("search-status");
  const results = document.getElementById("search-results");
  const entries = pages.flatMap(({ page, title, sections }) =>
    sections.map(([anchor, heading, text]) => ({
      title, heading, text, address: `${page}.html#${anchor}`,
      lower: `${heading}\n${text}`.toLowerCase(),
    })));

  const count = (text, word) => text.split(word).length - 1;
  // How well a section fits: 0 where a word is missing; words in its heading weigh more.
  const score = (entry, words) => {
    const counts = words.map((word) => count(entry.lower, word));
    if (counts.includes(0)) return 0;
    const heading = entry.heading.toLowerCase();
    return counts.reduce((sum, n) => sum + Math.min(n, 20), 0)
      + 30 * words.filter((word) => heading.includes(word)).length;
  };

  // The text around the first word, with all words marked.
  const excerpt = (text, words) => {
    const lower = text.toLowerCase();
    const first = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
    const start = Math.max(0, (first.length ? Math.min(...first) : 0) - AROUND);
    const end = Math.min(text.length, start + 3 * AROUND);
    const box = document.createElement("p");
    if (start) box.append("… ");
    for (let at = start; at < end;) {
      const hit = words.map((word) => [lower.indexOf(word, at), word])
        .filter(([place]) => place >= 0 && place < end).sort((a, b) => a[0] - b[0])[0];
      if (!hit) { box.append(text.slice(at, end)); break; }
      const mark = document.createElement("mark");
      mark.textContent = text.slice(hit[0], hit[0] + hit[1].length);
      box.append(text.slice(at, hit[0]), mark);
      at = hit[0] + hit[1].length;
    }
    if (end < text.length) box.append(" …");
    return box;
  };

  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const scored = words.length ? entries.map((entry) => [score(entry, words), entry]) : [];
    const hits = scored.filter(([points]) => points).sort((a, b) => b[0] - a[0]);
    const chapters = new Set(hits.map(([, entry]) => entry.title)).size;
    const many = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
    status.textContent = !words.length ? "" : !hits.length ? "Nothing has all of these words."
      : `${many(hits.length, "section")} of ${many(chapters, "chapter")}`
        + (hits.length > MOST ? `, the first ${MOST}:` : ":");
    results.replaceChildren(...hits.slice(0, MOST).map(([, entry]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = entry.address;
      link.textContent = entry.heading === entry.title ? entry.title
        : `${entry.title} › ${entry.heading}`;
      item.append(link, excerpt(entry.text, words));
      return item;
    }));
  };
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", show);
  field.form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  show();
})();
