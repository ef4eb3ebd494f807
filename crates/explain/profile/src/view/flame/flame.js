"use strict";
(() => {
  const svg = document.currentScript.ownerSVGElement;
  const find = (selector) => svg.querySelector(selector);
  const [inner, details] = [find(".frames"), find(".details")];
  const [input, button, output] = [find(".field input"), find(".field button"), find(".field output")];
  const PAD = 10, LETTER = 7.2;

  // Frames with their places, in percent of the graph.
  const frames = [...inner.children].map((g) => {
    const [rect, text] = [g.querySelector("rect"), g.querySelector("text")];
    const number = (name) => parseFloat(rect.getAttribute(name));
    return { g, rect, text, x: number("x"), width: number("width"), y: number("y"),
      name: g.dataset.name, title: g.querySelector("title").textContent };
  });
  const frameOf = new Map(frames.map((frame) => [frame.g, frame]));
  const all = frames[0];
  let zoomed = all;

  // Places are printed with four digits.
  const NEAR = 0.0003;
  const covers = (a, b) => a.x <= b.x + NEAR && a.x + a.width + NEAR >= b.x + b.width;
  const isBelow = (a, b) => a.y > b.y && covers(a, b);

  function shortened(name, width) {
    const letters = Math.floor((width - 6) / LETTER);
    if (name.length <= letters) return name;
    return letters < 3 ? "" : name.slice(0, letters - 1) + "…";
  }

  function draw() {
    const pixels = Math.max(svg.clientWidth - 2 * PAD, 200);
    inner.setAttribute("width", pixels);
    for (const frame of frames) {
      const isAround = isBelow(frame, zoomed);
      const isShown = isAround || (frame.y <= zoomed.y && covers(zoomed, frame));
      frame.g.style.display = isShown ? "" : "none";
      frame.g.classList.toggle("around", isAround);
      if (!isShown) continue;
      const scale = 100 / zoomed.width;
      const x = isAround ? 0 : (frame.x - zoomed.x) * scale;
      const width = isAround ? 100 : frame.width * scale;
      frame.rect.setAttribute("x", x + "%");
      frame.rect.setAttribute("width", width + "%");
      frame.text.setAttribute("x", x + "%");
      frame.text.textContent = shortened(frame.name, (width / 100) * pixels);
    }
    button.hidden = zoomed === all;
  }

  function zoom(frame) {
    zoomed = frame;
    draw();
  }

  // The share of the samples with a found function in their stacks: nested finds count once.
  function search(pattern) {
    let expression = null;
    try {
      if (pattern) expression = new RegExp(pattern, "i");
      input.setCustomValidity("");
    } catch (error) {
      input.setCustomValidity(error.message);
      output.textContent = "not a regular expression";
    }
    const found = frames.filter((frame) => {
      const isFound = expression !== null && expression.test(frame.name);
      frame.g.classList.toggle("found", isFound);
      return isFound;
    });
    if (!input.validity.valid) return;
    found.sort((a, b) => a.x - b.x || b.width - a.width);
    let [share, end] = [0, 0];
    for (const frame of found) {
      const right = frame.x + frame.width;
      if (right > end + NEAR) {
        share += right - Math.max(end, frame.x);
        end = right;
      }
    }
    output.textContent = pattern ? `${found.length} found, ${share.toFixed(2)}%` : "";
  }

  function focus(frame) {
    if (!frame) return;
    for (const other of frames) other.g.setAttribute("tabindex", other === frame ? "0" : "-1");
    frame.g.focus();
    details.textContent = frame.title;
  }

  const shown = (frame) => frame.g.style.display !== "none";
  const widest = (some) => some.reduce((a, b) => (!a || b.width > a.width ? b : a), null);
  // The next frame from one, by arrow: callers are below, callees above.
  const neighbours = {
    ArrowUp: (from) => widest(frames.filter((f) => shown(f) && rowsApart(f, from) === -1 && covers(from, f))),
    ArrowDown: (from) => frames.find((f) => shown(f) && rowsApart(f, from) === 1 && covers(f, from)),
    ArrowLeft: (from) => frames.filter((f) => shown(f) && f.y === from.y && f.x < from.x).sort((a, b) => b.x - a.x)[0],
    ArrowRight: (from) => frames.filter((f) => shown(f) && f.y === from.y && f.x > from.x).sort((a, b) => a.x - b.x)[0],
  };
  const rowsApart = (a, b) => Math.round((a.y - b.y) / 17);

  const frameAt = (event) => {
    const g = event.target.closest?.("g");
    return g && frameOf.get(g);
  };
  inner.addEventListener("click", (event) => {
    const frame = frameAt(event);
    if (frame) {
      zoom(frame);
      focus(frame);
    }
  });
  inner.addEventListener("mouseover", (event) => {
    const frame = frameAt(event);
    if (frame) details.textContent = frame.title;
  });
  svg.addEventListener("keydown", (event) => {
    const frame = frameAt(event);
    if (frame && neighbours[event.key]) focus(neighbours[event.key](frame));
    else if (frame && (event.key === "Enter" || event.key === " ")) zoom(frame);
    else return;
    event.preventDefault();
  });
  // In a page there may be others, and keys are for the one that has the focus.
  const isAlone = document.documentElement === svg;
  (isAlone ? window : svg).addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoom(all);
    else if (event.key === "F3" || (event.ctrlKey && event.key === "f")) input.focus();
    else return;
    event.preventDefault();
  });
  button.addEventListener("click", () => zoom(all));
  input.addEventListener("input", () => search(input.value));
  new ResizeObserver(draw).observe(svg);
  svg.setAttribute("width", "100%");
  draw();
})();
