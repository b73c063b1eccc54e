// The page asks the same routes that programs do. Nothing of an answer becomes HTML: only text.

const PAUSE_MS = 120; // after the last letter, before a question is asked
const COLUMNS = 12; // that are offered as filters
const SHORTEST = 3; // letters of a word that is marked
const $ = (id) => document.getElementById(id);
const state = { index: "", asked: null, timer: 0, hits: [], columns: [] };

/** An element with attributes and children, which are elements or text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// ---- asking -----------------------------------------------------------------------------------

/** What a route answers; asks for a token where one is needed. Throws an Error with one line. */
async function ask(path, body, signal) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const method = body ? "POST" : "GET";
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
  if (answer.status === 401) {
    await askForToken();
    return ask(path, body, signal);
  }
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}

let asking = null;
function askForToken() {
  asking ??= new Promise((resolve) => {
    sessionStorage.removeItem("token");
    $("token").showModal();
    $("token-form").addEventListener("submit", () => {
      sessionStorage.setItem("token", $("token-value").value);
      $("token-value").value = "";
      asking = null;
      resolve();
    }, { once: true });
  });
  return asking;
}

const place = (...parts) => ["indexes", state.index, ...parts].map(encodeURIComponent).join("/");

// ---- searching --------------------------------------------------------------------------------

function searchSoon() {
  clearTimeout(state.timer);
  state.timer = setTimeout(search, PAUSE_MS);
}

async function search() {
  clearTimeout(state.timer);
  state.asked?.abort();
  const query = $("query").value.trim();
  remember(query);
  if (!query) {
    show({ hits: [] }, "", null);
    $("status").textContent = "";
    return;
  }
  const own = new AbortController();
  state.asked = own;
  const start = performance.now();
  try {
    const body = { query, limit: 10, where: condition() };
    const found = await ask(place("search"), body, own.signal);
    show(found.queries[0], query, found);
    const count = found.queries[0].hits.length;
    $("status").textContent = count ? `${count} answers` : "nothing found";
    showCosts(found.milliseconds, performance.now() - start);
    problem("");
  } catch (error) {
    if (error.name !== "AbortError") problem(error.message);
  }
}

function problem(line) {
  $("problem").textContent = line;
  $("problem").hidden = !line;
  if (line) $("status").textContent = "";
}

/** The address keeps the question, so that it can be sent and come back to. */
function remember(query) {
  const asked = new URLSearchParams();
  if (state.index) asked.set("index", state.index);
  if (query) asked.set("q", query);
  history.replaceState(null, "", `?${asked}`);
}

// ---- answers ----------------------------------------------------------------------------------

function show(answer, query, found) {
  state.hits = answer.hits;
  $("hits").replaceChildren(...answer.hits.map((hit) => hitItem(hit, query, found.chance_score)));
  $("costs").hidden = !answer.hits.length;
}

function hitItem(hit, query, chance) {
  const byChance = chance !== null && hit.score < chance;
  const where = [hit.headings.join(" › "), hit.page && `page ${hit.page}`].filter(Boolean);
  const score = `${hit.score.toFixed(3)}${byChance ? ", no nearer than chance" : ""}`;
  const button = element(
    "button",
    { type: "button", class: "hit" },
    element("span", { class: "name" }, hit.title || hit.id),
    element("span", { class: "place" }, [score, ...where].join(" · ")),
    element("span", { class: "text" }, ...marked(hit.text, query)),
  );
  button.addEventListener("click", () => open(hit, query));
  return element("li", byChance ? { class: "chance" } : {}, button);
}

/** A text as pieces, the query's words in marks. */
function marked(text, query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const long = words.filter((word) => word.length >= SHORTEST);
  if (!long.length) return [text];
  const pattern = long.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return text
    .split(new RegExp(`(?<![\\p{L}\\p{N}_])((?:${pattern})(?![\\p{L}\\p{N}_]))`, "giu"))
    .map((piece, i) => (i % 2 ? element("mark", {}, piece) : piece));
}

function showCosts(milliseconds, whole) {
  const names = ["wait", "encode", "filter", "scan", "rescore", "fetch"];
  const parts = names
    .filter((name) => name in milliseconds)
    .map((name) => `${name} ${milliseconds[name].toFixed(1)}`);
  $("costs").textContent = `Milliseconds: ${parts.join(", ")}; ${whole.toFixed(0)} as seen from here.`;
}

// ---- a document -------------------------------------------------------------------------------

async function open(hit, query) {
  try {
    const found = await ask(place("documents") + "/" + hit.id.split("/").map(encodeURIComponent).join("/"));
    $("document-title").textContent = found.title || found.id;
    const facts = Object.entries(found.metadata).filter(([, value]) => value !== null);
    $("document-facts").replaceChildren(...pairs([["id", found.id], ...facts]));
    const letters = [...found.text]; // places are counted in characters, not in UTF-16's halves
    const [start, end] = [hit.start, hit.end];
    const passage = element(
      "span",
      { class: "passage", id: "passage" },
      ...marked(letters.slice(start, end).join(""), query),
    );
    $("document-text").replaceChildren(
      letters.slice(0, start).join(""),
      passage,
      letters.slice(end).join(""),
    );
    $("document").showModal();
    passage.scrollIntoView({ block: "center" });
  } catch (error) {
    problem(error.message);
  }
}

function pairs(facts) {
  return facts.flatMap(([name, value]) => {
    const said = typeof value === "object" ? JSON.stringify(value) : String(value);
    return [element("dt", {}, name), element("dd", {}, said)];
  });
}

// ---- filters ----------------------------------------------------------------------------------

function filterOf(column) {
  if (column.values) {
    const options = column.values.map((one, i) =>
      element("option", { value: i }, `${one.value} (${one.documents.toLocaleString("en")})`));
    const choice = element("select", {}, element("option", { value: "" }, "any"), ...options);
    return element("label", {}, column.name, choice);
  }
  if (column.least === undefined || column.least === null) return null;
  const type = /DATE|TIMESTAMP/.test(column.type) ? "date" : /TIME/.test(column.type) ? "time" : "number";
  const input = (side, hint) => element("input", {
    type,
    step: type === "number" ? "any" : null,
    placeholder: hint,
    "aria-label": `${column.name} ${side}`,
  });
  const range = element(
    "div",
    { class: "range" },
    input("from", column.least),
    "to",
    input("to", column.greatest),
  );
  return element("fieldset", {}, element("legend", {}, column.name), range);
}

const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

function constant(value) {
  if (typeof value === "number" || typeof value === "boolean") return String(value).toUpperCase();
  return `'${String(value).replaceAll("'", "''")}'`;
}

/** What the filters say, as DuckDB has it; null if they say nothing. */
function condition() {
  const parts = [];
  for (const { column, field } of state.columns) {
    const inputs = field.querySelectorAll("select, input");
    if (column.values && inputs[0].value !== "") {
      parts.push(`${quoted(column.name)} = ${constant(column.values[inputs[0].value].value)}`);
    }
    if (column.values) continue;
    const value = (input) => (input.type === "number" ? Number(input.value) : input.value);
    if (inputs[0].value !== "") parts.push(`${quoted(column.name)} >= ${constant(value(inputs[0]))}`);
    if (inputs[1].value !== "") parts.push(`${quoted(column.name)} <= ${constant(value(inputs[1]))}`);
  }
  $("filtered").textContent = parts.length ? ` (${parts.length} on)` : "";
  return parts.length ? parts.join(" AND ") : null;
}

async function showFilters() {
  const { columns } = await ask(place("columns"));
  state.columns = columns
    .map((column) => ({ column, field: filterOf(column) }))
    .filter(({ field }) => field)
    .slice(0, COLUMNS);
  $("columns").replaceChildren(...state.columns.map(({ field }) => field));
  $("filters").hidden = !state.columns.length;
  condition();
}

// ---- facts ------------------------------------------------------------------------------------

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];
function bytes(count) {
  let unit = 0;
  for (; count >= 1000 && unit < UNITS.length - 1; unit += 1) count /= 1000;
  return `${count.toFixed(unit && count < 10 ? 1 : 0)} ${UNITS[unit]}`;
}

async function showFacts() {
  const facts = await ask(place());
  const rows = facts.passages.rows;
  const settings = facts.settings ?? {};
  const list = [
    ["documents", facts.documents.toLocaleString("en")],
    ["passages", rows === facts.documents ? null : rows.toLocaleString("en")],
    ["encoder", facts.encoder.model ?? facts.encoder.type],
    ["dimensions", settings.k ? `${facts.dimensions}, reduced to ${settings.k}` : facts.dimensions],
    ["kept as", settings.kind],
    ["recall", facts.certificate?.said],
  ];
  $("fact-list").replaceChildren(...pairs(list.filter(([, value]) => value)));
  const own = rows * facts.memory.ram_bytes_per_vector + facts.memory.ram_bytes_fixed;
  const full = rows * 4 * facts.dimensions;
  const most = Math.max(own, full);
  const bar = (name, size) => {
    const inside = element("div", { class: "size" });
    inside.style.width = `${(100 * size) / most}%`;
    return element(
      "div",
      { class: "bar" },
      element("span", {}, name),
      element("div", { class: "track", "aria-hidden": "true" }, inside),
      element("span", {}, `${bytes(size)} in memory`),
    );
  };
  $("memory").replaceChildren(bar("this index", own), bar("as float32", full));
  $("facts").hidden = false;
}

// ---- keys and beginning -----------------------------------------------------------------------

function moveBy(step) {
  const buttons = [...document.querySelectorAll(".hit")];
  const now = buttons.indexOf(document.activeElement);
  const next = now + step;
  if (next < 0) $("query").focus();
  else buttons[Math.min(next, buttons.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const here = document.activeElement;
  const isField = here?.matches("input, select") && here.id !== "query";
  if (event.key === "/" && !here?.matches("input, select")) {
    event.preventDefault();
    $("query").focus();
    $("query").select();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !isField) {
    event.preventDefault();
    moveBy(event.key === "ArrowDown" ? 1 : -1);
  }
});
$("query").addEventListener("input", searchSoon);
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
$("columns").addEventListener("input", searchSoon);
$("search").addEventListener("reset", (event) => {
  event.preventDefault(); // the question stays
  for (const input of $("columns").querySelectorAll("select, input")) input.value = "";
  search();
});
$("close").addEventListener("click", () => $("document").close());
$("token").addEventListener("cancel", (event) => event.preventDefault());
$("index").addEventListener("change", () => choose($("index").value));

async function choose(name) {
  state.index = name;
  $("index").value = name;
  try {
    await Promise.all([showFilters(), showFacts()]);
    await search();
  } catch (error) {
    problem(error.message);
  }
}

async function begin() {
  try {
    const asked = new URLSearchParams(location.search);
    const { indexes } = await ask("indexes");
    const names = indexes.map((one) => one.name);
    $("index").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    $("index-label").hidden = names.length < 2;
    $("query").value = asked.get("q") ?? "";
    await choose(names.includes(asked.get("index")) ? asked.get("index") : names[0]);
  } catch (error) {
    problem(error.message);
  }
}
begin();
