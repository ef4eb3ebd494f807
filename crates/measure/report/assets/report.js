// Makes the page interactive: one selection, which the URL fragment holds, controls all views.
//
//   #case=mmap1&n=16                        a testcase, and a task count in all its charts
//   #q=map&family=memory&mode=threads       filters of testcases and modes
//   #verdict=retrograde&change=slower       filters by result
//   #sort=name                              order
//
// The page is readable without this script, except the compressed testcases of a large page, which
// the script unpacks when the reader opens them.
"use strict";
(() => {
  const FILTERS = ["q", "family", "mode", "verdict", "change", "sort"];
  const tiles = [...document.querySelectorAll(".tile")];
  const cases = new Map([...document.querySelectorAll("details.case")].map((d) => [d.dataset.case, d]));
  const rows = [...document.querySelectorAll(".summary-table tbody tr")];
  const form = document.getElementById("filters");
  const page = JSON.parse(document.querySelector("script.page-data").textContent);
  const several = page.runs.length > 1;
  const parsed = new Map();
  const unpacking = new Map();
  let state = new URLSearchParams();
  let selected = null;

  // ---- The selection

  function readFragment() {
    const fragment = location.hash.slice(1);
    // A link to a section of the page does not change the selection.
    if (fragment === "" || fragment.includes("=")) state = new URLSearchParams(fragment);
    apply();
  }

  // The back button undoes a click, but not typing or dragging.
  function change(values, isStep) {
    const next = new URLSearchParams(state);
    for (const [key, value] of Object.entries(values)) {
      if (value === "" || value === null) next.delete(key);
      else next.set(key, value);
    }
    if (next.toString() === state.toString()) return;
    state = next;
    const address = state.size > 0 ? "#" + state : location.pathname + location.search;
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    apply();
  }

  function apply() {
    filter();
    select(cases.get(state.get("case")) ?? null);
    const details = selected;
    if (details) whenUnpacked(details, () => mark(details, Number(state.get("n"))));
  }

  function select(details) {
    if (selected === details) return;
    if (selected) {
      selected.classList.remove("selected");
      selected.open = false;
    }
    for (const link of document.querySelectorAll("a[aria-current]")) link.removeAttribute("aria-current");
    selected = details;
    if (!details) return;
    details.classList.add("selected");
    details.hidden = false;
    details.open = true;
    tileOf(details)?.querySelector("a").setAttribute("aria-current", "true");
    whenUnpacked(details, () => furnish(details));
    const summary = details.querySelector("summary");
    summary.focus({ preventScroll: true });
    details.scrollIntoView();
  }

  function tileOf(details) {
    return tiles.find((tile) => tile.dataset.case === details.dataset.case);
  }

  // ---- Filters and order

  function filter() {
    const wanted = Object.fromEntries(FILTERS.map((key) => [key, state.get(key) ?? ""]));
    for (const key of FILTERS) {
      const control = form.elements[key];
      if (control && control !== document.activeElement) control.value = wanted[key];
    }
    const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = new Set();
    for (const tile of tiles) {
      const modes = [...tile.querySelectorAll(".mode")];
      let matches = false;
      for (const mode of modes) {
        const inMode = wanted.mode === "" || mode.dataset.mode === wanted.mode;
        mode.hidden = !inMode;
        const has = (list, value) => value === "" || list.split(" ").includes(value);
        if (inMode && has(mode.dataset.verdicts, wanted.verdict) && has(mode.dataset.changes, wanted.change)) {
          matches = true;
        }
      }
      if (modes.length === 0) matches = [wanted.mode, wanted.change].join("") === "" && ["", "missing"].includes(wanted.verdict);
      const text = `${tile.dataset.case} ${tile.dataset.family} ${tile.querySelector(".description").textContent}`.toLowerCase();
      matches &&= wanted.family === "" || tile.dataset.family === wanted.family;
      matches &&= words.every((word) => text.includes(word));
      tile.hidden = !matches;
      if (matches) shown.add(tile.dataset.case);
    }
    for (const [name, details] of cases) details.hidden = !shown.has(name) && name !== state.get("case");
    showModes(document);
    for (const row of rows) {
      row.hidden = !shown.has(row.dataset.case) || (wanted.mode !== "" && row.dataset.mode !== wanted.mode);
    }
    document.querySelector(".none").hidden = shown.size > 0 || tiles.length === 0;
    form.querySelector("output").textContent = `${shown.size} of ${tiles.length} testcases`;
    sort(wanted.sort);
  }

  function showModes(within) {
    const mode = state.get("mode") ?? "";
    for (const section of within.querySelectorAll(".case [data-mode]")) {
      section.hidden = mode !== "" && section.dataset.mode !== mode;
    }
  }

  let order = "";
  function sort(wanted) {
    if (wanted === order) return;
    order = wanted;
    const by = {
      name: (a, b) => (a.dataset.case < b.dataset.case ? -1 : 1),
      change: (a, b) => Number(b.dataset.change ?? -1) - Number(a.dataset.change ?? -1),
    }[wanted];
    // `tiles` keeps the order of the page: worst first.
    const sorted = by ? [...tiles].sort(by) : tiles;
    document.querySelector(".tiles").append(...sorted);
  }

  // ---- One testcase: a task count in all its charts, and downloads

  // Calls `then` at once if nothing is compressed, as on a page of normal size.
  function whenUnpacked(details, then) {
    if (!details.querySelector("script.packed")) return then();
    if (!unpacking.has(details)) unpacking.set(details, unpack(details));
    unpacking.get(details).then(then, () => {});
  }

  async function unpack(details) {
    const content = details.querySelector("script.content");
    const data = details.querySelector("script.case-data");
    const template = document.createElement("template");
    try {
      [template.innerHTML] = await Promise.all([textOf(content), dataOf(details)]);
    } catch (error) {
      content.before(make("p", { className: "doubts" }, `This browser cannot unpack it: ${error.message}`));
      throw error;
    }
    content.replaceWith(template.content);
    data.remove();
    showModes(details.parentElement);
  }

  async function textOf(script) {
    if (!script.classList.contains("packed")) return script.textContent;
    const bytes = Uint8Array.from(atob(script.textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  }

  async function dataOf(details) {
    if (!parsed.has(details)) parse(details, await textOf(details.querySelector("script.case-data")));
    return parsed.get(details);
  }

  function parse(details, text) {
    const data = JSON.parse(text);
    const named = (row) => plain(Object.fromEntries(data.columns.map((column, i) => [column, row[i]])), data.part);
    for (const curve of data.curves) curve.points = curve.points.map(named);
    delete data.columns;
    delete data.part;
    parsed.set(details, data);
    return data;
  }

  // In seconds.
  const QUANTILES = ["p50", "p90", "p99", "p99_9", "max"];

  // A point with rates and shares instead of integer parts.
  function plain(point, part) {
    const digits = (value) => Number(value.toPrecision(6));
    const beside = (rate) => (parts) => (parts === null ? null : digits(rate + parts * part * (rate || 1)));
    const share = (parts) => (parts === null ? null : digits(parts * part));
    const [ofAll, ofTask] = [beside(point.rate), beside(point.rate / point.tasks)];
    for (const key of ["low", "high"]) point[key] = ofAll(point[key]);
    for (const key of ["min", "max"]) point[key] = ofTask(point[key]);
    for (const key of ["confidence", "fairness", "user", "system", "idle", "efficiency"]) point[key] = share(point[key]);
    point.rounds = point.rounds.map(ofAll);
    point.latency &&= Object.fromEntries(QUANTILES.map((name, i) => [name, point.latency[i]]));
    return point;
  }

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  function furnish(details) {
    const tools = details.querySelector(".tools");
    if (tools.hasChildNodes()) return;
    const data = parsed.get(details) ?? parse(details, details.querySelector("script.case-data").textContent);
    const counts = [...new Set(data.curves.flatMap((c) => [...c.points, ...c.missing].map((p) => p.tasks)))].sort((a, b) => a - b);
    details.counts = counts;
    if (counts.length > 1) {
      const slider = make("input", { type: "range", min: 0, max: counts.length - 1, value: counts.length - 1 });
      slider.addEventListener("input", () => choose(details, counts[slider.value], false));
      tools.append(make("label", {}, isOverConnections(data) ? "Connections" : "Tasks", slider));
      for (const chart of details.querySelectorAll("svg[data-tasks]")) {
        chart.addEventListener("click", (event) => choose(details, nearest(chart, event, counts), false));
      }
    }
    const name = data.case.name;
    const save = (label, type, text) => {
      const button = make("button", { type: "button" }, `Download ${label}`);
      button.addEventListener("click", () => download(`${name}.${label.toLowerCase()}`, type, text()));
      return button;
    };
    tools.append(save("CSV", "text/csv", () => csv([data])));
    tools.append(save("JSON", "application/json", () => JSON.stringify({ ...page, cases: [data] }, null, 1)));
    const readout = make("div", { className: "readout" });
    readout.setAttribute("aria-live", "polite");
    tools.append(readout);
    if (counts.length === 1) mark(details, counts[0]);
  }

  function isOverConnections(data) {
    return data.curves.some((curve) => curve.axis === "connections");
  }

  function choose(details, n, isStep) {
    if (selected !== details) change({ case: details.dataset.case, n }, true);
    else change({ n }, isStep);
  }

  function scaleOf(chart) {
    const [n0, n1, x0, x1, top, bottom] = chart.dataset.tasks.split(" ").map(Number);
    const [to, from] = "logarithmic" in chart.dataset ? [Math.log, Math.exp] : [(n) => n, (n) => n];
    const [t0, t1] = [to(n0), to(n1)];
    return { top, bottom, x: (n) => x0 + ((to(n) - t0) / (t1 - t0)) * (x1 - x0), n: (x) => from(t0 + ((x - x0) / (x1 - x0)) * (t1 - t0)) };
  }

  function nearest(chart, event, counts) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
    const wanted = scaleOf(chart).n(at.x);
    return counts.reduce((best, n) => (Math.abs(n - wanted) < Math.abs(best - wanted) ? n : best));
  }

  // Shows the points of all curves at `n`: a line in the charts, the rows of the tables, and text.
  function mark(details, n) {
    const index = details.counts.indexOf(n);
    for (const chart of details.querySelectorAll("svg[data-tasks]")) {
      chart.querySelector(".cursor")?.remove();
      if (index < 0) continue;
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("class", "cursor");
      const { x, top, bottom } = scaleOf(chart);
      line.setAttribute("d", `M${x(n).toFixed(1)} ${top}V${bottom}`);
      chart.append(line);
    }
    for (const row of details.querySelectorAll("tr[data-n]")) row.classList.toggle("here", Number(row.dataset.n) === n);
    const slider = details.querySelector(".tools input");
    if (slider && index >= 0) {
      slider.value = index;
      slider.setAttribute("aria-valuetext", `${n} ${isOverConnections(parsed.get(details)) ? "connections" : "tasks"}`);
    }
    const readout = details.querySelector(".readout");
    readout.replaceChildren();
    if (index < 0) return;
    const mode = state.get("mode");
    const data = parsed.get(details);
    for (const curve of data.curves) {
      if (mode && curve.mode !== mode) continue;
      const text = sentence(data, curve, n);
      if (text) readout.append(make("div", { className: `r${curve.run % 6}` }, text));
    }
  }

  function sentence(data, curve, n) {
    const who = `${n} ${curve.axis === "connections" ? curve.axis : curve.mode}${several ? `, ${page.runs[curve.run].label}` : ""}: `;
    const gap = curve.missing.find((point) => point.tasks === n);
    if (gap) return `${who}not measured: ${gap.reason}`;
    const point = curve.points.find((candidate) => candidate.tasks === n);
    if (!point) return "";
    const parts = [`${si(point.rate)} ${data.case.unit}/s [${si(point.low)}, ${si(point.high)}]`];
    if (point.disturbed) parts.unshift("⊗ disturbed, nothing is concluded");
    if (point.oversubscribed) parts.push("more tasks than CPUs, no efficiency");
    if (curve.points.length > 1 && point.efficiency !== null) {
      parts.push(`efficiency ${(point.efficiency * 100).toFixed(0)}%${point.implausible ? ", implausible" : ""}`);
    }
    if (point.min !== null) parts.push(`per task ${si(point.min)} to ${si(point.max)}`, `fairness ${point.fairness.toFixed(3)}`);
    if (point.idle !== null) parts.push(`idle ${(point.idle * 100).toFixed(0)}%`);
    if (point.change) {
      const verdict = { slower: "slower than", faster: "faster than", same: "same as", inconclusive: "inconclusive against", disturbed: "too disturbed to compare with" };
      const { ratio, note } = point.change;
      const by = point.change.verdict === "disturbed" ? "" : ratio ? `: ×${ratio.value.toFixed(3)}` : `: – ${note}`;
      parts.push(`${verdict[point.change.verdict]} ${page.runs[0].label}${by}`);
    }
    return who + parts.join(" · ");
  }

  function si(value) {
    const prefixes = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];
    const [divisor, symbol] = prefixes.find(([least]) => value * 1.0005 >= least) ?? [1, ""];
    return Number((value / divisor).toPrecision(3)) + symbol;
  }

  // ---- Downloads

  const COLUMNS = ["run", "testcase", "mode", "tasks", "rate", "low", "high", "confidence", "min", "max", "fairness", "user", "system", "idle", "samples", "marked", "efficiency", "measured", "disturbed", "oversubscribed", "implausible", "ratio", "ratio_low", "ratio_high", "p", "verdict", "rounds", ...QUANTILES.map((name) => `latency_${name}`), "missing", "connections"];

  function lines({ case: testcase, curves }) {
    const lines = [];
    for (const curve of curves) {
      const key = [page.runs[curve.run].label, testcase.name, curve.mode];
      // Over connections, the name contains the task count.
      const [tasks, connections] = curve.axis === "connections" ? [() => "", (p) => p.tasks] : [(p) => p.tasks, () => ""];
      for (const p of curve.points) {
        const { ratio, p: chance, verdict } = p.change ?? {};
        const { value, low, high } = ratio ?? {};
        lines.push([...key, tasks(p), p.rate, p.low, p.high, p.confidence, p.min, p.max, p.fairness, p.user, p.system, p.idle, p.samples, p.marked, p.efficiency, p.measured, p.disturbed, p.oversubscribed, p.implausible, value, low, high, chance, verdict, p.rounds.join(" "), ...QUANTILES.map((name) => p.latency?.[name]), "", connections(p)]);
      }
      for (const gap of curve.missing) lines.push([...key, tasks(gap), ...Array(COLUMNS.length - 6).fill(""), gap.reason, connections(gap)]);
    }
    return lines;
  }

  function csv(all) {
    const cell = (value) => {
      const text = String(value ?? "");
      // A spreadsheet takes text that begins with one of these characters for a formula, and could run it. It ignores
      // quotation marks, blanks and invisible characters before them.
      const isFormula = /^(?:"|[^\p{L}\p{N}!-~])*[=+\-@＝＋－＠]/u.test(text);
      const harmless = typeof value === "string" && isFormula ? `'${text}` : text;
      return /[",\n\r]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
    };
    return [COLUMNS, ...all.flatMap(lines)].map((line) => line.map(cell).join(",") + "\n").join("");
  }

  // The table of a compressed testcase: the columns of the CSV file, except the testcase and the
  // mode, and except columns without values or with only "false".
  function tabulate(details) {
    const place = details.querySelector(".rows");
    if (!place || place.hasChildNodes()) return;
    const mode = details.closest("[data-mode]").dataset.mode;
    const data = parsed.get(details.closest("details.case"));
    const rows = lines({ ...data, curves: data.curves.filter((curve) => curve.mode === mode) });
    const shown = COLUMNS.map((_, i) => i).filter((i) => i > 2 || (i === 0 && several));
    const used = shown.filter((i) => rows.some((row) => (row[i] ?? "") !== "" && row[i] !== false));
    const cells = (tag, row) => used.map((i) => make(tag, {}, String(row[i] ?? "") || "–"));
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr", {}, ...cells("td", row));
      line.dataset.n = row[3];
      body.append(line);
    }
    place.append(make("table", {}, make("thead", {}, make("tr", {}, ...cells("th", COLUMNS))), body));
  }

  function download(name, type, text) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function downloadAll() {
    const bar = make("div", { className: "tools" });
    const all = () => Promise.all([...cases.values()].map(dataOf));
    const add = (label, type, text) => {
      const button = make("button", { type: "button" }, `Download all as ${label}`);
      button.addEventListener("click", async () => download(`knee-report.${label.toLowerCase()}`, type, text(await all())));
      bar.append(button);
    };
    add("CSV", "text/csv", (data) => csv(data));
    add("JSON", "application/json", (data) => JSON.stringify({ ...page, cases: data }, null, 1));
    document.querySelector(".summary-table").before(bar);
  }

  // ---- Events

  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#case="]');
    if (link) {
      event.preventDefault();
      const name = decodeURIComponent(link.getAttribute("href").slice("#case=".length));
      if (state.get("case") === name) selected?.scrollIntoView();
      else change({ case: name, n: null }, true);
      return;
    }
    const summary = event.target.closest("details.case > summary");
    if (summary) {
      const details = summary.parentElement;
      // The browser opens or closes it right after this.
      if (details.open && selected === details) {
        event.preventDefault();
        change({ case: null, n: null }, true);
      } else if (!details.open) {
        event.preventDefault();
        change({ case: details.dataset.case, n: null }, true);
      }
      return;
    }
    if (event.target.closest("[data-clear]")) {
      form.reset();
      change(Object.fromEntries(FILTERS.map((key) => [key, null])), true);
    }
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    change({ [event.target.name]: event.target.value }, event.target.tagName === "SELECT");
  });
  // The browser also opens a testcase if a search in the page finds a match in it.
  document.addEventListener("toggle", (event) => {
    const details = event.target;
    if (details.matches("details.data[open]")) tabulate(details);
    if (details.matches("details.case[open]")) whenUnpacked(details, () => furnish(details));
  }, true);
  addEventListener("popstate", readFragment);
  addEventListener("hashchange", readFragment);

  form.hidden = false;
  downloadAll();
  for (const details of cases.values()) if (details.open) furnish(details);
  readFragment();
})();
