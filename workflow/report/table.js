// Sorting, filtering, folding and copying. Without scripts, the page lacks only these controls.
(function () {
  "use strict";
  var PAGE = 50; // rows per page of a paged table
  document.documentElement.classList.add("js");

  // Sorting units: rows of a plain table, workloads (tbody) of a folded table.
  function units(table) {
    return table.classList.contains("folded") ? Array.from(table.tBodies) : Array.from(table.tBodies[0].rows);
  }

  // Head row with the column names; a row above it may name groups.
  function headOf(table) {
    return table.tHead.rows[table.tHead.rows.length - 1];
  }

  function rowOf(unit) {
    return unit.tagName === "TR" ? unit : unit.rows[0];
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
    var keyed = units(table).map(function (unit, place) {
      return { unit: unit, place: place, key: keyOf(rowOf(unit).cells[column]) };
    });
    keyed.sort(function (a, b) {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return direction * compare(a.key, b.key) || a.place - b.place;
    });
    keyed.forEach(function (entry) { entry.unit.parentNode.appendChild(entry.unit); });
    Array.from(headOf(table).cells).forEach(function (head, place) {
      if (head.hasAttribute("data-fixed")) return;
      head.setAttribute("aria-sort", place !== column ? "none" : direction > 0 ? "ascending" : "descending");
    });
  }

  function makeSortable(table) {
    Array.from(headOf(table).cells).forEach(function (head, column) {
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
    input.placeholder = "all words must match a row's names";
    label.append(input);
    var shown = document.createElement("output");
    tools.append(label);
    if (table.classList.contains("folded")) tools.append(unfoldAll(table));
    tools.append(copyButton(table, shown), shown);
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

  // Names only: a filter for «32» should not match values.
  function wordsOf(unit) {
    var cells = unit.querySelectorAll("th, tr:not(.line) > td:not(.n):not(.insight)");
    return Array.from(cells, function (cell) { return cell.textContent; }).join(" ").toLowerCase();
  }

  function fold(unit, open) {
    Array.from(unit.rows).slice(1).forEach(function (row) { row.hidden = !open; });
    unit.querySelector("button.fold").setAttribute("aria-expanded", String(open));
  }

  function makeFoldable(table) {
    units(table).forEach(function (unit) {
      var head = unit.rows[0].cells[0];
      var button = document.createElement("button");
      button.type = "button";
      button.className = "fold";
      button.appendChild(head.querySelector("code"));
      head.prepend(button);
      button.addEventListener("click", function () {
        fold(unit, button.getAttribute("aria-expanded") !== "true");
        hintCut();
      });
      fold(unit, false);
    });
  }

  function unfoldAll(table) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "Unfold all";
    button.addEventListener("click", function () {
      var open = button.textContent === "Unfold all";
      units(table).forEach(function (unit) { fold(unit, open); });
      hintCut();
      button.textContent = open ? "Fold all" : "Unfold all";
    });
    return button;
  }

  // Rows that pass the filter, with full precision; of a folded table the row of each workload.
  function csvOf(table) {
    var lines = [headOf(table)].concat(units(table).filter(function (unit) { return !unit.hidden; }).map(rowOf));
    return lines.map(function (row) { return Array.from(row.cells, valueOf).map(quoted).join(","); }).join("\n") + "\n";
  }

  function valueOf(cell) {
    if (cell.dataset.v !== undefined && cell.matches(".n:not(.both)")) return cell.dataset.v;
    if (cell.classList.contains("missing")) return "";
    if (cell.tagName === "TH" && cell.getAttribute("aria-label")) return cell.getAttribute("aria-label");
    var copy = cell.cloneNode(true);
    copy.querySelectorAll("sup, .s, .perma").forEach(function (note) { note.remove(); });
    return copy.textContent.replace(/[\s\u200b]+/g, " ").trim();
  }

  function quoted(text) {
    return /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function copyButton(table, status) {
    var button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy as CSV";
    button.addEventListener("click", function () {
      var text = csvOf(table);
      var done = function () { status.textContent = text.split("\n").length - 2 + " rows copied"; };
      if (navigator.clipboard && window.isSecureContext) {
        navigator.clipboard.writeText(text).then(done, function () { byHand(text); done(); });
      } else {
        byHand(text);
        done();
      }
    });
    return button;
  }

  function byHand(text) {
    var area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  // A table with one page of rows in the document; sorting and filtering use the data.
  function makePaged(holder) {
    var data = JSON.parse(holder.querySelector("script").textContent);
    var state = { page: 0, column: null, direction: 1, words: [] };
    var tools = document.createElement("div");
    tools.className = "tools";
    var input = document.createElement("input");
    input.type = "search";
    input.placeholder = "all words must match a workload's name";
    var label = document.createElement("label");
    label.append("Filter ", input);
    var shown = document.createElement("output");
    var table = document.createElement("table");
    table.className = "data";
    var head = table.createTHead().insertRow();
    var body = table.createTBody();

    function turn(text, step) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", function () { state.page += step; show(); });
      return button;
    }

    function rows() {
      var matching = data.rows.filter(function (row) {
        return state.words.every(function (word) { return row[0].toLowerCase().includes(word); });
      });
      if (state.column === null) return matching;
      return matching.sort(function (a, b) {
        var left = a[state.column], right = b[state.column];
        if (left === null || right === null) return (left === null) - (right === null);
        return state.direction * compare(left, right);
      });
    }

    function show() {
      var matching = rows();
      state.page = Math.max(0, Math.min(state.page, Math.ceil(matching.length / PAGE) - 1));
      var first = state.page * PAGE;
      var part = matching.slice(first, first + PAGE);
      body.replaceChildren();
      part.forEach(function (row) {
        var line = body.insertRow();
        row.forEach(function (value, place) {
          var cell = document.createElement(place ? "td" : "th");
          cell.className = place ? "n" : "";
          cell.textContent = value === null ? "not timed" : value;
          line.append(cell);
        });
      });
      shown.textContent = part.length ? first + 1 + " to " + (first + part.length) + " of " + matching.length : "none";
    }

    data.head.forEach(function (name, column) {
      var cell = document.createElement("th");
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", function () {
        state.direction = state.column === column ? -state.direction : 1;
        state.column = column;
        state.page = 0;
        Array.from(head.cells).forEach(function (other) { other.setAttribute("aria-sort", "none"); });
        cell.setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending");
        show();
      });
      cell.className = column ? "n" : "";
      cell.append(button);
      head.append(cell);
    });
    input.addEventListener("input", function () {
      state.words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      state.page = 0;
      show();
    });
    tools.append(label, turn("Previous", -1), turn("Next", 1), shown);
    holder.before(tools);
    holder.append(table);
    show();
  }

  // Values of a plot by keyboard: arrow keys visit the marks that have a title.
  function makeReadable(frame) {
    var marks = Array.from(frame.querySelectorAll("svg :not(svg) > title"), function (title) { return title.parentNode; });
    if (!marks.length) return;
    var place = -1;
    var value = document.createElement("output");
    value.className = "small";
    frame.after(value);
    frame.addEventListener("focus", function () {
      if (place < 0) value.textContent = "Keys ← and →: values of " + marks.length + " marks";
    });
    frame.addEventListener("keydown", function (event) {
      var step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      if (place >= 0) marks[place].classList.remove("at");
      place = place < 0 && step < 0 ? marks.length - 1 : (place + step + marks.length) % marks.length;
      marks[place].classList.add("at");
      marks[place].scrollIntoView({ block: "nearest", inline: "nearest" });
      value.textContent = marks[place].querySelector("title").textContent;
    });
  }

  // Each row with an id has a link to itself.
  document.querySelectorAll("table.data :is(tbody[id] > tr.sum, tr[id]) > th").forEach(function (cell) {
    var link = document.createElement("a");
    link.className = "perma";
    link.href = "#" + (cell.parentNode.id || cell.parentNode.parentNode.id);
    link.setAttribute("aria-label", "Link to " + cell.textContent);
    link.textContent = "#";
    cell.append(" ", link);
  });
  document.querySelectorAll("figure .wide").forEach(makeReadable);
  document.querySelectorAll("div.paged").forEach(makePaged);
  document.querySelectorAll("table.folded").forEach(makeFoldable);
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("table.filterable").forEach(makeFilterable);
  // Frames that are cut have a hint; a frame in a closed block has no width yet.
  function hintCut() {
    document.querySelectorAll("div.wide").forEach(function (frame) {
      var cut = frame.scrollWidth > frame.clientWidth + 1, hint = frame.previousElementSibling;
      if (!hint || !hint.matches("p.more")) hint = null;
      if (hint && !cut) hint.remove();
      if (!cut || hint) return;
      hint = document.createElement("p");
      hint.className = "more";
      hint.textContent = "Scroll sideways for more →";
      frame.before(hint);
    });
  }
  window.addEventListener("resize", hintCut);
  document.addEventListener("toggle", hintCut, true);
  hintCut();
  window.cutesnake = { csvOf: csvOf };

  // Links open the closed block of their target.
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target && target.matches(".folded tbody")) fold(target, true);
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  reveal();
})();
