// The tests of a pair of operations, the lines that they share, and the functions that access them.
// They are created on demand, because there are tens of thousands.
"use strict";
const conflictsOf = (() => {
  const VERDICTS = {
    conflict: "conflict in every run",
    sometimes: "conflict only in some runs",
    disturbed: "inconclusive: disturbed",
    died: "crashed the guest or the program",
    free: "conflict-free",
  };
  // Maximum number of tests that a list shows at once.
  const AT_ONCE = 200;

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  async function unpack(script) {
    const bytes = Uint8Array.from(atob(script.textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).json();
  }

  // An element that the reader can open, filled when it is first opened.
  function drawer(summary, fill, open = false) {
    const details = make("details", {}, make("summary", {}, ...summary));
    details.addEventListener("toggle", () => details.childElementCount === 1 && details.append(...fill()));
    details.open = open;
    return details;
  }

  const tests = (n) => (n === 1 ? "1 test" : `${n} tests`);
  const operationsOf = (id) => id.split("/")[0].split(",");

  function sideText(data, [call, first, last, writers, readers], operations) {
    const functions = (numbers) => numbers.map((nr) => data.names[nr]).join(", ");
    const did = [];
    if (writers.length) did.push("written by ", make("code", {}, functions(writers)));
    if (writers.length && readers.length) did.push("; ");
    if (readers.length) did.push("read by ", make("code", {}, functions(readers)));
    return make("li", {}, make("strong", {}, operations[call] ?? `call ${call}`), ` bytes ${first}–${last} `, ...did);
  }

  function lineText(data, nr, operations) {
    const [name, same, sides] = data.lines[nr];
    const note = same ? [] : [make("span", { className: "joint" }, " (false sharing)")];
    return make(
      "li",
      {},
      make("strong", {}, data.names[name]),
      ...note,
      make("ul", {}, ...sides.map((side) => sideText(data, side, operations))),
    );
  }

  function testText(data, [id, , lines, note]) {
    const texts = lines.map((nr) => lineText(data, nr, operationsOf(id)));
    const noted = note ? [make("p", { className: "doubts" }, note)] : [];
    if (texts.length === 0 && !note) return make("div", { className: "test" }, id);
    return drawer([id, make("span", { className: "joint" }, texts.length ? ` ${texts.length}` : "")], () => [
      ...noted,
      make("ul", { className: "lines" }, ...texts),
    ]);
  }

  function testList(data, some) {
    const list = make("div", {}, ...some.slice(0, AT_ONCE).map((test) => testText(data, test)));
    if (some.length > AT_ONCE) {
      const button = make("button", { type: "button" }, `${some.length - AT_ONCE} more`);
      button.addEventListener("click", () => {
        button.replaceWith(...some.slice(AT_ONCE).map((test) => testText(data, test)));
      });
      list.append(button);
    }
    return list;
  }

  // The lines that the tests of a pair share, those of most tests first, with all accesses.
  function dataList(data, some) {
    const shared = new Map();
    for (const [id, , lines] of some.filter(([, verdict]) => verdict === "conflict")) {
      for (const nr of new Set(lines)) {
        const name = data.lines[nr][0];
        if (!shared.has(name)) shared.set(name, { ids: new Set(), lines: new Map() });
        shared.get(name).ids.add(id);
        shared.get(name).lines.set(nr, operationsOf(id));
      }
    }
    const ranked = [...shared].sort(([, one], [, other]) => other.ids.size - one.ids.size);
    return ranked.map(([name, { ids, lines }]) =>
      drawer([make("strong", {}, data.names[name]), make("span", { className: "joint" }, ` ${tests(ids.size)}`)], () => [
        make("ul", { className: "lines" }, ...[...lines].map(([nr, operations]) => lineText(data, nr, operations))),
      ]),
    );
  }

  function pairText(data, link) {
    const some = data.pairs[link.getAttribute("href")];
    const shared = dataList(data, some);
    const lists = Object.entries(VERDICTS).map(([verdict, words]) => {
      const these = some.filter((test) => test[1] === verdict);
      return these.length === 0 ? "" : drawer([`${tests(these.length)}: ${words}`], () => [testList(data, these)]);
    });
    return [
      make("p", {}, make("strong", {}, link.getAttribute("aria-label"))),
      ...(shared.length ? [make("h4", {}, "What they share"), ...shared] : []),
      make("h4", {}, "Tests"),
      ...lists,
    ];
  }

  // The details to show for a link of a section.
  return (section) => {
    const unpacked = unpack(section.querySelector("script.shared-data"));
    return (link) => {
      const place = make("div", { className: "pair" });
      unpacked.then(
        (data) => place.append(...pairText(data, link)),
        (error) => place.append(make("p", { className: "doubts" }, `This browser cannot unpack it: ${error.message}`)),
      );
      return place;
    };
  };
})();
