// The page asks the same routes that programs do. Nothing of an answer becomes HTML: only text.

const PAUSE_MS = 120; // after the last letter, before a question is asked
const COLUMNS = 12; // that are offered as filters
const SHORTEST = 3; // letters of a word that is marked
const COMMON = new Set( // words that are in any text, and tell nothing when they are marked
  ("a about all an and any are as at be been but by can could do does for from had has have how i if in " +
    "into is it its me my no not of on or our so some than that the their them then there these they this " +
    "to was we were what when where which who why will with would you your").split(" "),
);
const $ = (id) => document.getElementById(id);
const state = { index: "", asked: null, timer: 0, columns: [] };

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
  const asked = { method, headers, body: body && JSON.stringify(body), signal };
  const answer = await fetch(path, asked).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The service does not answer.");
  });
  if (answer.status === 401) {
    // Of requests under way together the first asks; a token that came meanwhile is tried.
    if (token === sessionStorage.getItem("token")) await askForToken(token);
    return ask(path, body, signal);
  }
  const said = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return {}; // what stands between here and the service has answered
  });
  if (!answer.ok) throw new Error(said.error ?? `The service answers with ${answer.status}.`);
  return said;
}

let asking = null;
function askForToken(refused) {
  asking ??= new Promise((resolve, reject) => {
    sessionStorage.removeItem("token");
    $("token-value").value = "";
    $("token").returnValue = "";
    $("token").showModal();
    $("token-problem").textContent = refused ? "The service does not know this token." : "";
    $("token").addEventListener("close", () => {
      asking = null;
      if ($("token").returnValue !== "given") return reject(new Error("This service asks for a token."));
      sessionStorage.setItem("token", $("token-value").value.trim());
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
  const where = condition();
  remember(query);
  if (!query) {
    show([], "", null);
    problem("");
    return;
  }
  const own = new AbortController();
  state.asked = own;
  const start = performance.now();
  $("hits").ariaBusy = "true";
  try {
    const found = await ask(place("search"), { query, limit: 10, where }, own.signal);
    const { hits } = found.queries[0];
    show(hits, query, found.chance_score);
    problem("");
    $("status").textContent = counted(hits.length, where);
    showCosts(found.milliseconds, performance.now() - start);
  } catch (error) {
    if (error.name === "AbortError") return;
    show([], "", null);
    problem(error.message);
  }
}

function counted(count, where) {
  if (!count) return where ? "Nothing found with these filters." : "Nothing found.";
  return count === 1 ? "1 answer" : `${count} answers`;
}

function problem(line) {
  $("problem").textContent = line;
  $("problem").hidden = !line;
}

/** The address keeps the question, so that it can be sent and come back to. */
function remember(query) {
  const asked = new URLSearchParams();
  if (state.index) asked.set("index", state.index);
  if (query) asked.set("q", query);
  history.replaceState(null, "", `?${asked}`);
}

// ---- answers ----------------------------------------------------------------------------------

function show(hits, query, chance) {
  $("hits").replaceChildren(...hits.map((hit) => hitItem(hit, query, chance)));
  $("hits").ariaBusy = "false";
  $("status").textContent = "";
  $("costs").hidden = true;
}

function hitItem(hit, query, chance) {
  const byChance = chance !== null && hit.score < chance && !isNamed(hit, query);
  const score = `similarity ${hit.score.toFixed(3)}${byChance ? ", no nearer than chance" : ""}`;
  const id = hit.title && hit.title !== hit.id ? hit.id : "";
  const how = { words: "found by its words", name: "found by its name" }[hit.found_by];
  const headings = hit.headings.join(" › ");
  const where = [score, how, id, headings, hit.page && `page ${hit.page}`].filter(Boolean);
  const name = element("button", { type: "button", class: "name" }, hit.title || hit.id);
  name.addEventListener("click", () => open(hit, query));
  return element(
    "li",
    { class: byChance ? "hit chance" : "hit" },
    element("h2", {}, name),
    element("p", { class: "place" }, where.join(" · ")),
    element("p", { class: "text" }, ...marked(hit.text, query)),
  );
}

/** Whether a hit has the query word for word, as a name or in its text. */
function isNamed(hit, query) {
  const words = query.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const named = new RegExp(`(?<![\\p{L}\\p{N}_])${words}(?![\\p{L}\\p{N}_])`, "iu");
  return [hit.id, hit.title, hit.text].some((text) => named.test(text));
}

/** A text as pieces, the query's words in marks, also with other English endings. */
function marked(text, query) {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const telling = words.filter((word) => word.length >= SHORTEST && !COMMON.has(word));
  if (!telling.length) return [text];
  const stems = telling.map((word) => {
    if (word.length > SHORTEST + 1) return word.replace(/(?:es?|(?<!s)s)$/, "");
    return word.length > SHORTEST ? word.replace(/(?<!s)s$/, "") : word;
  });
  return text
    .split(new RegExp(`(?<![\\p{L}\\p{N}_])((?:${stems.join("|")})(?:s|e|es|d|ed|ing)?(?![\\p{L}\\p{N}_]))`, "giu"))
    .map((piece, i) => (i % 2 ? element("mark", {}, piece) : piece));
}

function showCosts(milliseconds, whole) {
  const names = ["wait", "encode", "filter", "scan", "rescore", "words", "fetch"];
  const parts = names
    .filter((name) => name in milliseconds)
    .map((name) => `${name} ${milliseconds[name].toFixed(1)}`);
  $("costs").textContent = `Milliseconds: ${parts.join(" · ")}; ${whole.toFixed(0)} in all, as seen from here`;
  $("costs").hidden = false;
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
      { class: "passage" },
      ...marked(letters.slice(start, end).join(""), query),
    );
    $("document-text").replaceChildren(
      letters.slice(0, start).join("").trimEnd(), // the passage has space around it
      passage,
      letters.slice(end).join("").replace(/^\s*\n/, ""),
    );
    $("document").showModal();
    $("document-body").scrollTop = 0;
    if (start > 0) passage.scrollIntoView({ block: "start" }); // else the facts above it are seen too
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

function filterOf(column, number) {
  if (column.values) {
    const options = column.values.map((one, i) =>
      element("option", { value: i }, `${one.value} (${one.documents.toLocaleString("en")})`));
    const id = `column-${number}`;
    const choice = element("select", { id }, element("option", { value: "" }, "any"), ...options);
    return element("div", {}, element("label", { for: id }, column.name), choice);
  }
  if (column.least === undefined || column.least === null) return null;
  const type = isDate(column) ? "date" : column.type.includes("TIME") ? "time" : "number";
  const input = (side) =>
    element("input", { type, step: type === "date" ? null : "any", "aria-label": `${column.name} ${side}` });
  const range = element("span", {}, `${shown(column.least)} – ${shown(column.greatest)}`);
  return element(
    "fieldset",
    {},
    element("legend", {}, `${column.name} `, range),
    element("div", { class: "range" }, input("from"), "to", input("to")),
  );
}

const isDate = (column) => /DATE|TIMESTAMP/.test(column.type);

/** An end of a range: years have no commas, and of times a day is enough. */
function shown(value) {
  if (typeof value === "number") return String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
  return String(value).split(" ")[0];
}

function dayAfter(day) {
  return new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
}

/** The filters as OpenAI's vector stores have them; null without any. */
function condition() {
  const filters = [];
  for (const { column, field } of state.columns) {
    const [first, last] = field.querySelectorAll("select, input");
    const add = (type, value) => filters.push({ type, key: column.name, value });
    const value = (input) => (input.type === "number" ? Number(input.value) : input.value);
    if (column.values) {
      if (first.value !== "") add("eq", column.values[first.value].value);
      continue;
    }
    if (first.value !== "") add("gte", value(first));
    if (last.value === "") continue;
    if (isDate(column)) add("lt", dayAfter(last.value)); // "to" a day includes all of it
    else add("lte", value(last));
  }
  $("filtered").textContent = filters.length ? ` (${filters.length} on)` : "";
  return filters.length ? { type: "and", filters } : null;
}

function showFilters(columns) {
  state.columns = columns
    .map((column, i) => ({ column, field: filterOf(column, i) }))
    .filter(({ field }) => field)
    .slice(0, COLUMNS);
  $("columns").replaceChildren(...state.columns.map(({ field }) => field));
  $("filters").hidden = !state.columns.length;
}

// ---- facts ------------------------------------------------------------------------------------

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];
function bytes(count) {
  let unit = 0;
  for (; count >= 1000 && unit < UNITS.length - 1; unit += 1) count /= 1000;
  return `${count.toFixed(unit && count < 10 ? 1 : 0)} ${UNITS[unit]}`;
}

function showFacts(facts) {
  const rows = facts.passages.rows;
  const settings = facts.settings ?? {};
  const reduced = settings.k && settings.k < facts.dimensions;
  const list = [
    ["name", state.index],
    ["documents", facts.documents.toLocaleString("en")],
    ["passages", rows === facts.documents ? null : rows.toLocaleString("en")],
    ["encoder", facts.encoder.model ?? facts.encoder.type],
    ["dimensions", reduced ? `${facts.dimensions}, reduced to ${settings.k}` : facts.dimensions],
    ["codes", settings.kind],
  ];
  $("fact-list").replaceChildren(...pairs(list.filter(([, value]) => value)));
  const own = rows * facts.memory.ram_bytes_per_vector + facts.memory.ram_bytes_fixed;
  const full = rows * 4 * facts.dimensions;
  const most = Math.max(own, full);
  const bar = (name, said, size, kind) => {
    const inside = element("div", { class: "size" });
    inside.style.width = `${(100 * size) / most}%`;
    return element(
      "div",
      { class: kind },
      element("span", {}, name),
      element("span", {}, said),
      element("div", { class: "track", "aria-hidden": "true" }, inside),
    );
  };
  const percent = (100 * own) / full;
  const share = full ? `, ${percent < 10 ? percent.toPrecision(2) : percent.toFixed(0)}%` : "";
  $("memory").replaceChildren(
    bar("this index", bytes(own) + share, own, "bar own"),
    bar("its vectors as float32", bytes(full), full, "bar"),
  );
  $("agreement").textContent = facts.certificate ? `Measured ${facts.certificate.said}.` : "";
  $("facts").hidden = false;
}

// ---- keys and beginning -----------------------------------------------------------------------

function moveBy(step) {
  const buttons = [...document.querySelectorAll(".hit .name")];
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
$("index").addEventListener("change", () => choose($("index").value));

async function choose(name) {
  state.index = name;
  $("index").value = name;
  try {
    const [{ columns }, facts] = await Promise.all([ask(place("columns")), ask(place())]);
    if (state.index !== name) return; // another was chosen meanwhile
    showFilters(columns);
    showFacts(facts);
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
    $("choice").hidden = names.length < 2;
    $("query").value = asked.get("q") ?? "";
    await choose(names.includes(asked.get("index")) ? asked.get("index") : names[0]);
  } catch (error) {
    problem(error.message);
  }
}
begin();
