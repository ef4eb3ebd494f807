// Shows the conditions, or the tests (shared.js), of a pair of operations beside their matrix. The
// URL fragment holds the selected pair: #commute=posix.open.link. Without this script, it is a link
// into the list of all conditions.
"use strict";
(() => {
  const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  function conditionsOf(section) {
    // Without ids, so that a fragment does not open the list as well.
    const pairs = new Map([...section.querySelectorAll(".pair")].map((pair) => ["#" + pair.id, pair]));
    for (const pair of pairs.values()) pair.removeAttribute("id");
    return (link) => pairs.get(link.getAttribute("href")).cloneNode(true);
  }

  function bring(section) {
    const table = section.querySelector(".matrix");
    const place = section.querySelector(".shown-pair");
    const rows = [...table.rows].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.firstElementChild));
    const links = rows.flat().filter(Boolean);
    if (links.length === 0) return;
    const contentOf = section.classList.contains("shared") ? conflictsOf(section) : conditionsOf(section);
    const share = (link) => Number(link.dataset.free ?? link.textContent);
    let chosen = null;
    let shown = null;

    // Pointing shows a pair temporarily; selecting it keeps it.
    function show(link) {
      if (link === shown) return;
      shown = link;
      place.replaceChildren(contentOf(link));
      place.scrollTop = 0;
      const row = rows.findIndex((row) => row.includes(link));
      const column = rows[row].indexOf(link);
      for (const [nr, line] of [...table.rows].entries()) {
        line.querySelector("th").classList.toggle("here", nr === row);
        line.querySelector(".column-name").classList.toggle("here", nr === column);
      }
    }

    function choose(link) {
      chosen?.removeAttribute("aria-current");
      for (const other of links) other.tabIndex = -1;
      chosen = link;
      link.tabIndex = 0;
      link.setAttribute("aria-current", "true");
      show(link);
    }

    table.addEventListener("pointerover", (event) => {
      const link = event.target.closest(".heat");
      if (link) show(link);
    });
    table.addEventListener("pointerleave", () => show(chosen));
    table.addEventListener("focusin", (event) => choose(event.target));
    table.addEventListener("click", (event) => {
      const link = event.target.closest(".heat");
      if (!link) return;
      event.preventDefault();
      choose(link);
      history.pushState(null, "", link.getAttribute("href"));
    });
    table.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      const row = rows.findIndex((row) => row.includes(chosen));
      const column = rows[row].indexOf(chosen);
      rows[row + step[0]]?.[column + step[1]]?.focus();
    });

    function readFragment() {
      const wanted = links.find((link) => link.getAttribute("href") === location.hash);
      if (!wanted) return;
      const list = section.querySelector(".conditions");
      if (list) list.open = false;
      choose(wanted);
      section.scrollIntoView();
    }
    addEventListener("popstate", readFragment);
    addEventListener("hashchange", readFragment);

    section.querySelector(".chosen-pair").hidden = false;
    choose(links.reduce((least, link) => (share(link) < share(least) ? link : least)));
    readFragment();
  }

  for (const section of document.querySelectorAll("section.commute")) bring(section);
})();
