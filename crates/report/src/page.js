"use strict";
// Exact values under the pointer, by arrow keys too, and sorting of tables. The page reads well without any of it.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);

  // Numbers as the page writes them: three digits and a unit that fits.
  const three = (v) => {
    const size = Math.abs(v);
    return size < 10 ? String(+v.toFixed(2)) : size < 100 ? String(+v.toFixed(1)) : Math.round(v).toLocaleString("en");
  };
  const scaled = (v, units) => {
    const [name, unit] = units.findLast(([, , from]) => Math.abs(v) >= from) ?? units[0];
    return `${three(v / unit)} ${name}`;
  };
  const say = {
    time: (v) => scaled(v, [["s", 1, 0], ["min", 60, 60], ["h", 3600, 3600], ["d", 86400, 172800]]),
    watts: (v) => scaled(v, [["W", 1, 0], ["kW", 1e3, 1e3], ["MW", 1e6, 1e6]]),
    energy: (v) => scaled(v, [["Wh", 1e-3, 0], ["kWh", 1, 1], ["MWh", 1e3, 1e3]]),
    ratio: (v) => `${(v * 100).toFixed(1)} %`,
    count: (v) => Math.round(v).toLocaleString("en"),
  };

  const readAxis = (token) => {
    const [scale, low, high, from, to, measure] = token.split(" ");
    const map = scale === "log" ? [Math.log, Math.exp] : [Number, Number];
    const [a, b] = [map[0](low), map[0](high)];
    const value = (px) => map[1](a + ((px - from) / (to - from)) * (b - a));
    return { from: +from, to: +to, value, say: (px) => say[measure](value(px)) };
  };
  // A step path, M x y then H x and V y, as corners.
  const readSteps = (d) => {
    const corners = [];
    let x = 0, y = 0;
    for (const [, command, rest] of d.matchAll(/([MHV])([^MHV]+)/g)) {
      if (command === "M") [x, y] = rest.split(" ").map(Number);
      else if (command === "H") x = +rest;
      else y = +rest;
      corners.push([x, y]);
    }
    return corners;
  };
  const heightAt = (corners, x) => {
    if (!corners.length || x > corners.at(-1)[0] + 0.5) return null;
    const corner = corners.findLast((c) => c[0] <= x);
    return corner ? corner[1] : null;
  };

  const place = (x, y) => {
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = Math.min(Math.max(4, y + 14), innerHeight - box.height - 4);
    tip.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
  };

  for (const svg of document.querySelectorAll("svg.chart")) {
    const plots = [...svg.querySelectorAll(".plot")].map((plot) => ({
      x: readAxis(plot.dataset.x),
      y: readAxis(plot.dataset.y),
      curves: [...plot.querySelectorAll("[data-name]")].map((path) => {
        path.querySelector("title")?.remove();
        return { name: path.dataset.name, colour: getComputedStyle(path).color, corners: readSteps(path.getAttribute("d")) };
      }),
    }));
    const cursor = document.createElementNS(svg.namespaceURI, "line");
    cursor.setAttribute("class", "cursor");
    let lit = null;
    const clear = () => {
      tip.hidden = true;
      cursor.remove();
      lit?.classList.remove("lit");
      lit = null;
    };
    const scale = () => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;

    const showPlot = (plot, x, client) => {
      clear();
      const head = document.createElement("b");
      head.textContent = plot.x.say(x);
      tip.replaceChildren(head);
      for (const curve of plot.curves) {
        const y = heightAt(curve.corners, x);
        if (y === null) continue;
        const [row, swatch, name, value] = ["span", "i", "em", "strong"].map((tag) => document.createElement(tag));
        swatch.style.background = curve.colour;
        name.textContent = curve.name;
        name.style.fontStyle = "normal";
        value.textContent = plot.y.say(y);
        row.append(swatch, name, value);
        tip.append(row);
      }
      for (const [k, v] of Object.entries({ x1: x, x2: x, y1: plot.y.to, y2: plot.y.from })) cursor.setAttribute(k, v);
      svg.append(cursor);
      place(...client);
    };
    const showMark = (mark, client) => {
      clear();
      const title = mark.querySelector("title");
      if (title) {
        mark.dataset.tip = title.textContent;
        title.remove();
      }
      tip.textContent = mark.dataset.tip;
      lit = mark;
      mark.classList.add("lit");
      place(...client);
    };
    const markOf = (node) => node.closest("rect, circle, path")?.matches(":has(title), [data-tip]") && node.closest("rect, circle, path");

    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / scale(), (event.clientY - box.top) / scale()];
      const plot = plots.find((p) => x >= p.x.from && x <= p.x.to && y <= p.y.from && y >= p.y.to);
      const mark = plot ? null : markOf(event.target);
      if (plot) showPlot(plot, x, [event.clientX, event.clientY]);
      else if (mark) showMark(mark, [event.clientX, event.clientY]);
      else clear();
    });
    svg.addEventListener("pointerleave", clear);
    svg.addEventListener("blur", clear);

    let at = -1, current = 0;
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0;
      const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
      if (event.key === "Escape") clear();
      if (!step && !(turn && plots.length > 1)) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      if (plots.length) {
        const before = plots[current].x.from;
        current = (current + turn + plots.length) % plots.length;
        const { x, y } = plots[current];
        at = at < 0 ? (x.from + x.to) / 2 : at - before + x.from;
        at = Math.min(x.to, Math.max(x.from, at + step * (event.shiftKey ? 40 : 5)));
        showPlot(plots[current], at, [box.left + at * scale(), box.top + y.to * scale()]);
      } else {
        const marks = [...svg.querySelectorAll(":is(rect, circle, path):is(:has(title), [data-tip])")];
        if (!marks.length) return;
        at = (at + step + marks.length) % marks.length;
        const spot = marks[at].getBoundingClientRect();
        showMark(marks[at], [spot.right, spot.bottom]);
      }
    });
  }

  const order = new Intl.Collator("en", { numeric: true });
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.v;
        const numeric = head.classList.contains("n");
        const rows = [...body.rows].sort((a, b) => {
          if (!numeric) return (up ? 1 : -1) * order.compare(a.cells[column].textContent, b.cells[column].textContent);
          // What has no value stays last, whichever way.
          const [p, q] = [key(a), key(b)];
          if (p === undefined || q === undefined) return (p === undefined) - (q === undefined);
          return (up ? 1 : -1) * (p - q);
        });
        body.append(...rows);
      });
    });
  }
})();
