// The page asks the same routes that programs do. Nothing of an answer becomes HTML: only text.

const PAUSE_MS = 120; // after the last letter, before a question is asked
const RERANK_PAUSE_MS = 500; // the same where a model then reads for seconds
const PAGE = 10; // answers, and as many more each time
const MOST = 1000; // answers that the service gives
const COLUMNS = 12; // that are offered as filters
const $ = (id) => document.getElementById(id);
// A settled address is kept in the history: what is typed from then on begins another entry.
// `doc` is the id of the document that is open, and `question` the one whose answers `hits` are.
const state = {
  index: "", asked: null, timer: 0, columns: [], limit: PAGE, can: [], settled: true,
  doc: "", shown: "", question: "", hits: [],
};

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

/** What a route answers. Throws an Error with one line. */
async function ask(path, body, signal) {
  const asked = body
    ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }
    : {};
  return contentOf(await fetched(path, { ...asked, signal }));
}

/** The JSON of an answer. Throws an Error with one line. */
async function contentOf(answer) {
  const said = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    return {}; // what stands between here and the service has answered
  });
  if (!answer.ok) throw new Error(said.error ?? `The service answers with ${answer.status}.`);
  return said;
}

/** The answer of a route; asks for a token where one is needed. */
async function fetched(path, asked) {
  const token = sessionStorage.getItem("token");
  const headers = { ...asked.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...asked, headers }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("The service does not answer.");
  });
  if (answer.status !== 401) return answer;
  // Of requests under way together the first asks; a token that came meanwhile is tried.
  if (token === sessionStorage.getItem("token")) await askForToken(token);
  return fetched(path, asked);
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
  notice("");
  state.limit = PAGE;
  state.timer = setTimeout(search, $("rerank").checked ? RERANK_PAUSE_MS : PAUSE_MS);
}

function searchNow() {
  notice("");
  state.limit = PAGE;
  state.settled = true;
  search().then(() => { state.settled = true; });
}

async function search() {
  clearTimeout(state.timer);
  state.timer = 0;
  state.asked?.abort();
  const query = $("query").value.trim();
  const where = condition();
  const rerank = $("rerank").checked;
  remember(query);
  state.question = questionOf(location.search);
  if (!query || !state.index) {
    show([]);
    problem("");
    return;
  }
  const own = new AbortController();
  state.asked = own;
  const start = performance.now();
  $("hits").ariaBusy = "true";
  try {
    const asked = { query, limit: state.limit, where, rerank, excerpts: true };
    const found = await ask(place("search"), asked, own.signal);
    const { hits } = found.queries[0];
    show(hits, rerank);
    problem("");
    const unfinished = found.unfinished ? ` (${found.unfinished})` : "";
    $("status").textContent = counted(hits.length, where) + unfinished;
    $("more").hidden = hits.length < state.limit || state.limit >= MOST;
    showCosts(found.milliseconds, performance.now() - start);
  } catch (error) {
    if (error.name === "AbortError") return;
    show([]);
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

async function showMore() {
  const before = document.querySelectorAll(".hit").length;
  state.limit = Math.min(state.limit + PAGE, MOST);
  state.settled = true;
  await search();
  state.settled = true;
  names()[before]?.focus();
}

// ---- the address ------------------------------------------------------------------------------

/** The address keeps all that is asked, so that it can be sent, and come back to. */
function remember(query) {
  const address = `?${addressed(query)}`;
  if (address === location.search || (address === "?" && !location.search)) return;
  if (state.settled) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  state.settled = false;
}

/** What is asked, as parameters of an address. */
function addressed(query) {
  const asked = new URLSearchParams();
  if (state.index) asked.set("index", state.index);
  if (query) asked.set("q", query);
  for (const [name, input] of filterInputs()) if (input.value !== "") asked.append(name, said(input));
  if ($("rerank").checked) asked.set("rerank", "1");
  if (state.limit > PAGE) asked.set("limit", state.limit);
  if (state.doc) asked.set("doc", state.doc);
  return asked;
}

/** The address of a document beside the question. */
function addressOf(id) {
  const asked = addressed($("query").value.trim());
  asked.set("doc", id);
  return `?${asked}`;
}

/** What an address asks, whichever document is open. */
function questionOf(search) {
  const asked = new URLSearchParams(search);
  asked.delete("doc");
  return String(asked);
}

/** Names in the address, and inputs, of the filters: `where.kind`, `from.year`, `to.year`. */
function filterInputs() {
  return state.columns.flatMap(({ column, field }) => {
    const [first, last] = field.querySelectorAll("select, input");
    if (first.matches("select")) return [[`where.${column.name}`, first]];
    return [[`from.${column.name}`, first], [`to.${column.name}`, last]];
  });
}

/** What an input says: of a choice the column's value, whose place may change with documents. */
const said = (input) => (input.matches("select") ? input.selectedOptions[0].dataset.value : input.value);

/** Ask what the address asks, and say what of it can't be asked here. */
async function recall() {
  const asked = new URLSearchParams(location.search);
  const query = (asked.get("q") ?? "").trim();
  $("query").value = query;
  $("rerank").checked = state.can.includes("rerank") && asked.has("rerank");
  state.doc = asked.get("doc") ?? "";
  const limit = Number(asked.get("limit"));
  state.limit = Number.isInteger(limit) && limit > PAGE ? Math.min(limit, MOST) : PAGE;
  for (const [name, input] of filterInputs()) {
    give(input, asked.get(name));
    if (input.value !== "") $("filters").open = true;
  }
  const used = addressed(query);
  const anyValue = (name) => name === "q" || (name === "rerank" && used.has(name));
  const left = [...asked].filter(([name, value]) => !anyValue(name) && !used.getAll(name).includes(value));
  notice(left.map(([name, value]) => `${name}=${value}`).join(", "));
  state.settled = false; // the address loses what is left out, without another entry
  await search();
  state.settled = true;
  await showDocument();
}

/** Give an input a value of the address: null, or a text that may be empty. */
function give(input, value) {
  if (value === null || !input.matches("select")) {
    input.value = value ?? "";
    return;
  }
  const found = () => [...input.options].find((option) => option.dataset.value === value);
  if (!found() && input.matches(".open")) input.append(element("option", { value, "data-value": value }, value));
  input.value = found()?.value ?? "";
}

/** Say what of the address is left out, until something else is asked. */
function notice(left) {
  $("notice").textContent = left ? `Left out of the address, as this index has no such choice: ${left}` : "";
  $("notice").hidden = !left;
}

window.addEventListener("popstate", () => {
  const asked = new URLSearchParams(location.search);
  const name = named(asked.get("index"));
  if (name !== state.index) choose(name);
  else if (questionOf(location.search) !== state.question) recall();
  else {
    state.doc = asked.get("doc") ?? ""; // the answers stay
    showDocument();
  }
});

/** An index of this name, or the first one. */
function named(name) {
  const names = [...$("index").options].map((option) => option.value);
  return names.includes(name) ? name : (names[0] ?? "");
}

// ---- answers ----------------------------------------------------------------------------------

function show(hits, reranked) {
  const before = names().indexOf(document.activeElement);
  const id = state.hits[before]?.id;
  state.hits = hits;
  $("hits").replaceChildren(...hits.map((hit) => hitItem(hit, reranked)));
  // A late answer must not take the focus from who has chosen a hit already.
  const same = hits.findIndex((hit) => hit.id === id);
  if (before >= 0) names()[same < 0 ? Math.min(before, hits.length - 1) : same]?.focus();
  $("hits").ariaBusy = "false";
  $("status").textContent = "";
  $("costs").hidden = true;
  $("more").hidden = true;
}

function hitItem(hit, reranked) {
  const score = `${reranked ? "second model's score" : "score"} ${hit.score.toFixed(3)}`;
  const id = hit.title && hit.title !== hit.id ? hit.id : "";
  const how = `found by its ${{ both: "meaning and words" }[hit.found_by] ?? hit.found_by}`;
  const headings = hit.headings.filter((heading) => !isSame(heading, hit.title)).join(" › ");
  const pages = [...new Set(hit.excerpt_pages)].join("-");
  const where = [score, how, id, headings, pages && `page ${pages}`].filter(Boolean);
  const [first, [start, end]] = [afterTitle(hit), hit.excerpt];
  const name = element("a", { href: addressOf(hit.id), class: "name" }, hit.title || hit.id);
  name.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return; // a tab of its own
    event.preventDefault();
    open(hit.id);
  });
  return element(
    "li",
    { class: "hit" },
    element("h2", {}, name),
    element("p", { class: "place" }, where.join(" · ")),
    linked(element("p", { class: `text ${lookOf(hit)}` }, ...marked(hit, Math.max(start, first), end, first))),
  );
}

const isSame = (one, other) => one.trim().toLowerCase() === other.trim().toLowerCase();

/** Where a hit's text begins after a first line that is its title, which stands above it. */
function afterTitle({ text, title }) {
  const [whole, line] = /^\s*([^\n]*)\s*/.exec(text);
  return isSame(line, title) ? [...whole].length : 0;
}

/** A part of a hit's text as pieces, the query's words in marks; "…" stands for what is left out after `first`. */
function marked(hit, start, end, first = 0) {
  const letters = [...hit.text]; // places are counted in characters, not in UTF-16's halves
  const between = (from, to) => letters.slice(from, to).join("");
  const pieces = [start > first ? "… " : ""];
  let done = start;
  for (const [from, to] of hit.marks) {
    if (to <= done || from >= end) continue;
    pieces.push(between(done, Math.max(from, done)), element("mark", {}, between(Math.max(from, done), to)));
    done = to;
  }
  return [...pieces, between(done, end), end < letters.length ? " …" : ""];
}

function showCosts(milliseconds, whole) {
  const names = ["wait", "encode", "filter", "scan", "rescore", "words", "fetch", "rerank"];
  const parts = names
    .filter((name) => name in milliseconds)
    .map((name) => `${name} ${milliseconds[name].toFixed(1)}`);
  $("costs").textContent = `Milliseconds: ${parts.join(" · ")}; ${whole.toFixed(0)} in all, measured by this browser`;
  $("costs").hidden = false;
}

// ---- a document -------------------------------------------------------------------------------

/** Open a document, as another entry of the history: Back closes it. */
function open(id) {
  state.settled = true;
  history.pushState({ opened: true }, "", addressOf(id));
  state.doc = id;
  return showDocument();
}

/** How a document is closed by another address, which may have come back before the event. */
const LEFT = "left";

/** Show the document that the address names; without one, close what is open. */
async function showDocument() {
  const id = state.doc;
  if (!id) {
    $("document").close(LEFT);
    return;
  }
  try {
    const found = await ask(place("documents") + "/" + id.split("/").map(encodeURIComponent).join("/"));
    if (state.doc !== id) return; // another was asked for meanwhile
    fill(found, state.hits.find((hit) => hit.id === found.id));
  } catch (error) {
    problem(error.message);
    state.doc = "";
    closed();
  }
}

/** Put a document into its window, and a hit's passage of it into view. */
function fill(found, hit) {
  const [dialog, body] = [$("document"), $("document-text")];
  $("document-title").textContent = found.title || found.id;
  const facts = Object.entries(found.metadata).filter(([, value]) => value !== null);
  $("document-facts").replaceChildren(...pairs([["id", found.id], ...facts]));
  body.className = lookOf(found);
  const letters = [...found.text]; // places are counted in characters, not in UTF-16's halves
  const [start, end] = hit ? [hit.start, hit.end] : [0, 0];
  const passage = hit && element("span", { class: "passage" }, ...marked(hit, 0, end - start));
  body.replaceChildren(
    letters.slice(0, start).join("").trimEnd(), // the passage has space around it
    passage ?? "",
    hit ? letters.slice(end).join("").replace(/^\s*\n/, "") : found.text,
  );
  linked(body);
  dialog.returnValue = "";
  state.shown = found.id;
  if (!dialog.open) dialog.showModal();
  $("document-body").scrollTop = 0;
  if (start > 0) passage.scrollIntoView({ block: "start" }); // else the facts above it are seen too
}

/** The address loses the document that was closed: by going back, if it was opened from here. */
function closed() {
  if (history.state?.opened) history.back();
  else history.replaceState(null, "", `?${addressed($("query").value.trim())}`);
}

$("document").addEventListener("close", () => {
  // Answers that came meanwhile have replaced the hit that had the focus.
  if ($("document").contains(document.activeElement)) hitOf(state.shown)?.focus();
  if ($("document").returnValue === LEFT) return; // the address has changed already
  state.doc = "";
  closed();
});

/** A class for the text of code. */
const lookOf = ({ metadata }) => (metadata.kind === "code" ? "code" : "");

const LINK = /\bhttps?:\/\/[^\s<>"'`]+/g;

/** Make links of the addresses in an element's text, across its marks. */
function linked(node) {
  for (const found of [...node.textContent.matchAll(LINK)].reverse()) {
    const address = trimmed(found[0]);
    const range = document.createRange();
    range.setStart(...letterAt(node, found.index));
    range.setEnd(...letterAt(node, found.index + address.length));
    const link = element("a", { href: address, target: "_blank", rel: "noopener noreferrer" });
    link.append(range.extractContents());
    range.insertNode(link);
  }
  return node;
}

/** An address without what ends the sentence or bracket that it is in. */
function trimmed(address) {
  const bare = address.replace(/[.,;:!?…*_]+$/, "");
  const isClosed = !/[)\]}]$/.test(bare) || bare.split("(").length === bare.split(")").length;
  return isClosed ? bare : trimmed(bare.slice(0, -1));
}

/** The text node of a letter of an element, and the letter's place in it. */
function letterAt(node, place) {
  const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  let last = texts.nextNode();
  while (place > last.length) {
    place -= last.length;
    last = texts.nextNode();
  }
  return [last, place];
}

function pairs(facts) {
  return facts.flatMap(([name, value]) => {
    const isPlain = typeof value !== "object" || (Array.isArray(value) && value.every((item) => typeof item !== "object"));
    const said = isPlain ? [value].flat().join(", ") : JSON.stringify(value);
    return [element("dt", {}, name), linked(element("dd", {}, said))];
  });
}

// ---- filters ----------------------------------------------------------------------------------

/** The filter of a column; null if none of its choices leaves some of the documents. */
function filterOf(column, number, documents) {
  const choices = (column.folders ?? column.items ?? column.values)?.filter((one) => one.documents < documents);
  if (choices) {
    const areNames = column.type === "VARCHAR" && choices.length === documents; // as paths of files
    if (!choices.length || areNames) return null;
    const none = column.folders ? "in no folder" : "empty";
    const options = choices.map((one, i) =>
      element("option", { value: i, "data-value": String(one.value) }, `${one.value === "" ? none : one.value} (${one.documents.toLocaleString("en")})`));
    const id = `column-${number}`;
    const any = element("option", { value: "" }, "any");
    const isOpen = column.folders || column.items; // the rare ones are not listed
    const choice = element("select", { id, class: isOpen ? "open" : null }, any, ...options);
    const below = column.folders ? element("span", {}, " with those below") : null;
    return element("div", {}, element("label", { for: id }, column.name, below), choice);
  }
  if (column.least === undefined || column.least === null) return null;
  const type = isDate(column) ? "date" : "number";
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

const identifier = (name) => `"${name.replaceAll('"', '""')}"`;
const literal = (text) => `'${text.replaceAll("'", "''")}'`; // DuckDB reads it as the column's type

/** The filters as a condition in SQL; null without any. */
function condition() {
  const filters = [];
  for (const { column, field } of state.columns) {
    const [first, last] = field.querySelectorAll("select, input");
    const name = identifier(column.name);
    const bound = (input) => (input.type === "number" ? input.value : literal(input.value));
    if (first.matches("select")) {
      if (first.value !== "") filters.push(chosen(column, literal(said(first))));
      continue;
    }
    if (first.value !== "") filters.push(`${name} >= ${bound(first)}`);
    if (last.value === "") continue;
    if (isDate(column)) filters.push(`${name} < ${literal(dayAfter(last.value))}`); // all of that day
    else filters.push(`${name} <= ${bound(last)}`);
  }
  $("filtered").textContent = filters.length ? ` (${filters.length} on)` : "";
  return filters.length ? filters.join(" AND ") : null;
}

/** The condition of a choice; that of a folder holds for those below it, too. */
function chosen(column, value) {
  const name = identifier(column.name);
  if (column.items) return `list_contains(${name}, ${value})`;
  const below = column.folders && value !== "''" ? ` OR starts_with(${name}, ${value.slice(0, -1)}/')` : "";
  return `(${name} = ${value}${below})`;
}

function showFilters(columns, documents) {
  state.columns = columns
    .map((column, i) => ({ column, field: filterOf(column, i, documents) }))
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
  const share = own < full ? `, ${percent < 10 ? percent.toPrecision(2) : percent.toFixed(0)}%` : "";
  const small = own < full ? [] : [element("p", { class: "quiet" }, "A small index saves no memory yet; a larger one does.")];
  $("memory").replaceChildren(
    bar("this index", bytes(own) + share, own, "bar own"),
    bar("its vectors as float32", bytes(full), full, "bar"),
    ...small,
  );
  $("agreement").textContent = facts.certificate ? `Measured ${facts.certificate.said}.` : "";
  $("facts").hidden = false;
}

// ---- adding files -----------------------------------------------------------------------------

/** Send a file; returns what was added. */
async function send(file) {
  const at = `${place("files")}/${encodeURIComponent(file.name)}?modified=${file.lastModified / 1000}`;
  const headers = { "Content-Type": "application/octet-stream" };
  return contentOf(await fetched(at, { method: "PUT", headers, body: file }));
}

async function sendAll(files) {
  $("send").disabled = true;
  $("uploaded").replaceChildren();
  $("upload-progress").hidden = false;
  for (const [i, file] of files.entries()) {
    $("upload-status").textContent = `${i + 1} of ${files.length}, ${file.name}`;
    $("upload-progress").value = i;
    $("upload-progress").max = files.length;
    const [line, kind] = await send(file).then(
      (added) => [summary(added), ""],
      (error) => [error.message, "problem"],
    );
    const named = line.startsWith(`${file.name}: `) ? line : `${file.name}: ${line}`;
    $("uploaded").append(element("li", { class: kind }, named));
  }
  $("upload-progress").hidden = true;
  $("upload-status").textContent = `${files.length === 1 ? "1 file" : `${files.length} files`} done`;
  $("send").disabled = false;
  $("upload").reset();
  await choose(state.index); // its facts, columns and answers are others now
}

function summary({ documents, replaced, unchanged, notes }) {
  if (!documents) return unchanged ? "unchanged" : "nothing in it";
  const how = replaced ? `, ${replaced === documents ? "replaced" : `${replaced} of them replaced`}` : "";
  const left = notes.filter((note) => /could not be read|left out/.test(note)).map((note) => `; ${note}`);
  return `${documents === 1 ? "1 document" : `${documents.toLocaleString("en")} documents`}${how}${left.join("")}`;
}

$("upload").addEventListener("submit", (event) => {
  event.preventDefault();
  sendAll([...$("files").files]).catch((error) => problem(error.message));
});
$("other-token").addEventListener("click", () => {
  sessionStorage.removeItem("token");
  askForToken("").then(begin, (error) => problem(error.message));
});

// ---- keys and beginning -----------------------------------------------------------------------

/** The button of the hit of a document. */
function hitOf(id) {
  return names()[state.hits.findIndex((hit) => hit.id === id)];
}

/** The buttons of the hits. */
function names() {
  return [...document.querySelectorAll(".hit .name")];
}

function moveBy(step) {
  const buttons = names();
  const now = buttons.indexOf(document.activeElement);
  const next = now + step;
  if (next < 0) $("query").focus();
  else buttons[Math.min(next, buttons.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const here = document.activeElement;
  const isField = here?.matches("input:not([type=checkbox]), select") && here.id !== "query";
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
$("query").addEventListener("change", () => { state.settled = true; });
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  searchNow();
});
$("columns").addEventListener("input", searchSoon);
$("columns").addEventListener("change", () => { state.settled = true; });
$("rerank").addEventListener("change", searchNow);
$("more").addEventListener("click", showMore);
$("search").addEventListener("reset", (event) => {
  event.preventDefault(); // the question stays
  for (const input of $("columns").querySelectorAll("select, input")) input.value = "";
  searchNow();
});
$("close").addEventListener("click", () => $("document").close());
$("index").addEventListener("change", () => {
  state.columns = []; // filters are those of an index
  state.index = $("index").value;
  state.limit = PAGE;
  state.settled = true;
  remember($("query").value.trim());
  choose(state.index);
});

/** Show an index, and what the address asks of it. */
async function choose(name) {
  state.index = name;
  $("index").value = name;
  $("adding").hidden = !name || !state.can.includes("write");
  try {
    const [{ columns }, facts] = await Promise.all([ask(place("columns")), ask(place())]);
    if (state.index !== name) return; // another was chosen meanwhile
    showFilters(columns, facts.documents);
    showFacts(facts);
    if (state.timer) remember($("query").value.trim()); // typed just now, and not asked yet
    await recall();
  } catch (error) {
    $("facts").hidden = true;
    problem(error.message);
  }
}

async function begin() {
  try {
    const { indexes, can } = await ask("indexes");
    state.can = can;
    $("index").replaceChildren(...indexes.map(({ name }) => element("option", { value: name }, name)));
    $("choice").hidden = indexes.length < 2;
    $("reranking").hidden = !can.includes("rerank");
    $("reading").hidden = can.includes("write");
    problem("");
    await choose(named(new URLSearchParams(location.search).get("index")));
  } catch (error) {
    problem(error.message);
  }
}
begin();
