"use strict";
// Shows /api/openapi.json as a page. All text enters as text, never as markup.

const $ = (id) => document.getElementById(id);
const TONES = { get: "good", put: "warn", post: "busy", delete: "fault" };

function make(tag, className, content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (content !== undefined && content !== null) element.textContent = content;
  return element;
}

function table(rows) {
  const body = make("tbody");
  for (const cells of rows) {
    const row = make("tr");
    row.append(...cells.map((content, at) => make("td", at === 0 ? "code" : "", content)));
    body.append(row);
  }
  const whole = make("table");
  whole.append(body);
  return whole;
}

const named = (document, schema) =>
  schema.$ref ? document.components.schemas[schema.$ref.split("/").pop()] : schema;

// What a schema allows, in a few words.
function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.oneOf) return schema.oneOf.filter((one) => one.type !== "null").map(kind).join(" | ");
  if (schema.type === "array" || (Array.isArray(schema.type) && schema.type.includes("array"))) {
    return `${kind(schema.items || {})}[]`;
  }
  const types = [].concat(schema.type || "any").filter((type) => type !== "null").join(" | ");
  const bounds = [];
  if (schema.minimum !== undefined || schema.maximum !== undefined) {
    bounds.push(`${schema.minimum ?? ""}…${schema.maximum ?? ""}`);
  }
  if (schema.maxLength !== undefined) bounds.push(`${schema.minLength ?? 0}…${schema.maxLength} characters`);
  return bounds.length ? `${types}, ${bounds.join(", ")}` : types;
}

// The fields of a body, those of what it holds indented under it.
function fields(document, schema, depth = 0, above = []) {
  const whole = named(document, schema);
  const parts = whole.allOf || [whole];
  const rows = [];
  for (const part of parts) {
    if (part.$ref) rows.push(...fields(document, part, depth, above));
    for (const [name, field] of Object.entries(part.properties || {})) {
      const must = (part.required || []).includes(name);
      rows.push([`${"  ".repeat(depth)}${name}${must ? "" : "?"}`, kind(field), field.description || ""]);
      const inner = [field, field.items, ...(field.oneOf || [])].find((one) => one && one.$ref);
      if (inner && depth < 3 && !above.includes(inner.$ref)) {
        rows.push(...fields(document, inner, depth + 1, above.concat(inner.$ref)));
      }
    }
  }
  return rows;
}

function section(details, title, ...content) {
  details.append(make("h3", "", title), ...content);
}

function fill(document, details, operation) {
  const parameters = operation.parameters || [];
  if (parameters.length) {
    const row = (one) => [one.name, one.in, kind(one.schema), one.description || ""];
    section(details, "Parameters 参数", table(parameters.map(row)));
  }
  for (const [type, content] of Object.entries((operation.requestBody || {}).content || {})) {
    section(details, `Body 请求体 · ${type}`, table(fields(document, content.schema)));
    if (content.example) details.append(make("pre", "", JSON.stringify(content.example, null, 2)));
  }
  for (const [status, response] of Object.entries(operation.responses)) {
    const types = Object.entries(response.content || {});
    const isRefusal = Number(status) >= 400 && types.some(([type]) => type === "application/json");
    const title = `${status} · ${response.description}`;
    if (isRefusal || types.length === 0) {
      section(details, title);
    }
    if (!isRefusal) {
      for (const [type, content] of types) {
        section(details, `${title} · ${type}`, table(fields(document, content.schema || {})));
      }
    }
  }
}

function entry(document, method, path, operation) {
  const details = make("details");
  details.id = operation.operationId;
  const scope = operation.security.flatMap((one) => one.bearer || []).join(", ");
  const summary = make("summary");
  summary.append(
    make("span", `chip ${TONES[method] || ""}`, method.toUpperCase()),
    make("code", "", path),
    make("span", "", operation.summary),
    make("span", "scope", scope || "open"),
  );
  details.append(summary);
  details.dataset.words = `${method} ${path} ${operation.summary} ${operation.operationId}`.toLowerCase();
  // The inside of an entry is made when it is looked at.
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) fill(document, details, operation);
  });
  return details;
}

function show(document) {
  $("version").textContent = document.info.version;
  $("about").append(make("p", "", document.info.description));
  const byTag = new Map();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push(entry(document, method, path, operation));
    }
  }
  for (const [tag, entries] of [...byTag].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const group = make("section");
    group.append(make("h2", "", tag), ...entries);
    $("entries").append(group);
  }
  const wanted = window.document.getElementById(location.hash.slice(1));
  if (wanted && wanted.tagName === "DETAILS") {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}

function find() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const group of $("entries").children) {
    let seen = 0;
    for (const details of group.querySelectorAll("details")) {
      details.hidden = !words.every((word) => details.dataset.words.includes(word));
      if (!details.hidden) seen += 1;
    }
    group.hidden = seen === 0;
  }
}

fetch("/api/openapi.json")
  .then((response) => response.json())
  .then((document) => {
    show(document);
    $("find").addEventListener("input", find);
  })
  .catch(() => {
    $("notice").textContent = "The server does not answer. 服务器没有响应。";
    $("notice").hidden = false;
  });
