// Tables are sorted by their headings: up, down, and back as they were. Without this file, all of
// a page is still there.
(() => {
  "use strict";

  const SCALES = {
    ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600,
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, kB: 1e3, MB: 1e6, GB: 1e9,
  };
  const NUMBER = /^[<>≤≥~≈±×]?\s*([+\-−]?)\s*(\d[\d,]*(?:\.\d+)?|\.\d+)(?:e([+\-−]?\d+))?\s*([a-zA-Zµ]+)?/;

  // The number that a text begins with: `1,234`, `−3.5 %`, `12 MiB`, `0.95 to 1.20 (75%)`, `3 of 5`.
  const numberOf = (text) => {
    const found = NUMBER.exec(text.trim());
    if (!found) return NaN;
    const power = found[3] ? Number(found[3].replace("−", "-")) : 0;
    const size = Number(found[2].replaceAll(",", "")) * 10 ** power;
    return (found[1] === "-" || found[1] === "−" ? -1 : 1) * size * (SCALES[found[4]] ?? 1);
  };

  const isNothing = (text) => text === "" || text === "–";

  const compare = (a, b, numeric) =>
    numeric ? numberOf(a) - numberOf(b) : a.localeCompare(b, "en", { numeric: true });

  const sorted = (rows, column, way) => {
    const text = (row) => row.cells[column]?.textContent.trim() ?? "";
    const known = rows.map(text).filter((each) => !isNothing(each));
    const numeric = known.every((each) => !Number.isNaN(numberOf(each)));
    return [...rows].sort((one, other) => {
      const [a, b] = [text(one), text(other)];
      // What was not measured comes last, whichever way.
      if (isNothing(a) || isNothing(b)) return Number(isNothing(a)) - Number(isNothing(b));
      return way * compare(a, b, numeric);
    });
  };

  // Rows below a heading between the rows stay below it.
  const groupsOf = (body) => {
    const groups = [{ head: null, rows: [] }];
    for (const row of body.rows) {
      if (row.classList.contains("hz-group")) groups.push({ head: row, rows: [] });
      else groups.at(-1).rows.push(row);
    }
    return groups;
  };

  const prepare = (table) => {
    const [body] = table.tBodies;
    const headings = [...(table.tHead?.rows[0]?.cells ?? [])];
    const groups = body ? groupsOf(body) : [];
    if (!groups.some((group) => group.rows.length > 1)) return;
    const arrange = (column, way) => {
      for (const { head, rows } of groups) {
        if (head) body.append(head);
        body.append(...(way ? sorted(rows, column, way) : rows));
      }
    };
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "hz-sort";
      button.title = "Sort by this column";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "none" };
        const wanted = next[heading.getAttribute("aria-sort")];
        for (const each of headings) each.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", wanted);
        arrange(column, { none: 0, ascending: 1, descending: -1 }[wanted]);
      });
    });
  };

  const begin = () => document.querySelectorAll(".hz-table table:not(.hz-answer)").forEach(prepare);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
