// Sorting and filtering. Without scripts the page is complete; only these controls are missing.
(function () {
  "use strict";
  document.documentElement.classList.add("js");

  // What moves as one: a row of a plain table, a group of lines (tbody) of a table of pairs.
  function units(table) {
    return table.classList.contains("pairs") ? Array.from(table.tBodies) : Array.from(table.tBodies[0].rows);
  }

  // Cell of a column in the line that the reader chose; later lines of a group lack the cell that spans them all.
  function cellOf(table, unit, column) {
    if (unit.tagName === "TR") return unit.cells[column];
    var line = Number(table.dataset.line || 0);
    if (column === 0 || line === 0) return unit.rows[0].cells[column];
    return unit.rows[line].cells[column - 1];
  }

  function keyOf(cell) {
    if (!cell) return null;
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    var text = cell.textContent.trim();
    return cell.classList.contains("missing") || text === "" ? null : text;
  }

  function compare(a, b) {
    return typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function sort(table, column, direction) {
    var found = units(table).map(function (unit, place) {
      return { unit: unit, place: place, key: keyOf(cellOf(table, unit, column)) };
    });
    found.sort(function (a, b) {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return direction * compare(a.key, b.key) || a.place - b.place;
    });
    found.forEach(function (entry) { entry.unit.parentNode.appendChild(entry.unit); });
    Array.from(table.tHead.rows[0].cells).forEach(function (head, place) {
      if (head.hasAttribute("data-fixed")) return;
      head.setAttribute("aria-sort", place !== column ? "none" : direction > 0 ? "ascending" : "descending");
    });
  }

  function makeSortable(table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
      if (head.hasAttribute("data-fixed")) return;
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) button.appendChild(head.firstChild);
      head.appendChild(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", function () {
        sort(table, column, head.getAttribute("aria-sort") === "ascending" ? -1 : 1);
      });
    });
  }

  function makeFilterable(table) {
    var tools = document.createElement("div");
    tools.className = "tools";
    var label = document.createElement("label");
    label.append("Filter ");
    var input = document.createElement("input");
    input.type = "search";
    input.placeholder = "words that must all be in a row's names";
    label.append(input);
    var shown = document.createElement("output");
    tools.append(label);
    if (table.classList.contains("pairs")) tools.append(chooseLine(table));
    tools.append(shown);
    table.parentNode.before(tools);
    var all = units(table).map(function (unit) {
      return { unit: unit, text: wordsOf(unit) };
    });
    input.addEventListener("input", function () {
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      var left = 0;
      all.forEach(function (entry) {
        var fits = words.every(function (word) { return entry.text.includes(word); });
        entry.unit.hidden = !fits;
        left += fits;
      });
      shown.textContent = words.length ? left + " of " + all.length + " shown" : "";
    });
  }

  // Names only: a filter for «32» should not find every row that has a 32 in some figure.
  function wordsOf(unit) {
    var cells = unit.querySelectorAll("th, td:not(.n):not(.insight)");
    return Array.from(cells, function (cell) { return cell.textContent; }).join(" ").toLowerCase();
  }

  function chooseLine(table) {
    var label = document.createElement("label");
    label.append("Sort by the figure of ");
    var select = document.createElement("select");
    ["cuTile", "CuTe", "Delta"].forEach(function (name, line) { select.add(new Option(name, line)); });
    select.addEventListener("change", function () {
      table.dataset.line = select.value;
      var heads = Array.from(table.tHead.rows[0].cells);
      var column = heads.findIndex(function (head) { return /cending/.test(head.getAttribute("aria-sort")); });
      if (column >= 0) sort(table, column, heads[column].getAttribute("aria-sort") === "ascending" ? 1 : -1);
    });
    label.append(select);
    return label;
  }

  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("table.filterable").forEach(makeFilterable);

  // A link to something inside a closed block opens it; printing opens everything.
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details.block, details.common, details.small").forEach(function (block) { block.open = true; });
  });
  reveal();
})();
