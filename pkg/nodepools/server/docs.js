// Shows /openapi.json. Everything is written as text, never as HTML.
"use strict";

const verbs = ["get", "post", "put", "patch", "delete"];

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function typeText(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return "list of " + typeText(schema.items);
  if (schema.additionalProperties && schema.additionalProperties.type) return "map of " + typeText(schema.additionalProperties);
  return schema.format ? `${schema.type} (${schema.format})` : schema.type || "any";
}

function rulesText(schema) {
  const rules = [];
  if (schema.enum) rules.push("one of " + schema.enum.filter((v) => v !== "").join(", "));
  if (schema.minimum !== undefined) rules.push("at least " + schema.minimum);
  if (schema.maximum !== undefined) rules.push("at most " + schema.maximum);
  if (schema.pattern) rules.push("matches " + schema.pattern);
  if (schema.examples) rules.push("such as " + schema.examples.join(", "));
  return rules.join("; ");
}

function row(name, required, schema, words, where) {
  return element("tr", {},
    element("td", {}, element("code", {}, name), required ? " *" : "", where ? element("div", { class: "quiet" }, where) : null),
    element("td", {}, typeText(schema)),
    element("td", {}, words || "", element("div", { class: "quiet" }, rulesText(schema || {}))));
}

function resolve(api, part) {
  if (!part || !part.$ref) return part;
  return part.$ref.slice(2).split("/").reduce((at, key) => at[key], api);
}

// The fields of a schema and, folded, of those in it.
function fields(api, schema, depth) {
  const target = resolve(api, schema);
  if (!target) return null;
  if (target.type === "array") return fields(api, target.items, depth);
  if (!target.properties || depth > 6) return null;
  const table = element("table", {});
  const inner = [];
  for (const [name, property] of Object.entries(target.properties)) {
    table.append(row(name, (target.required || []).includes(name), property, property.description));
    const nested = fields(api, property, depth + 1);
    if (nested) inner.push(element("details", {}, element("summary", {}, element("code", {}, name)), nested));
  }
  return element("div", {}, table, ...inner);
}

function curl(verb, path, operation) {
  let command = "curl";
  if (verb !== "get") command += " -X " + verb.toUpperCase();
  command += " -H \"Authorization: Bearer $TOKEN\"";
  const body = operation.requestBody && Object.keys(operation.requestBody.content)[0];
  if (body) command += " -H \"Content-Type: " + body + "\" -d @body.json";
  return command + " \"" + location.origin + path + "\"";
}

function show(api, path, verb, operation) {
  const content = element("div", {}, element("p", {}, operation.description || ""));
  const parameters = (operation.parameters || []).map((one) => resolve(api, one));
  if (parameters.length) {
    const table = element("table", {});
    for (const one of parameters) table.append(row(one.name, one.required, one.schema, one.description, one.in));
    content.append(element("h4", {}, "Parameters"), table);
  }
  if (operation.requestBody) {
    const schema = Object.values(operation.requestBody.content)[0].schema;
    content.append(element("h4", {}, "Body: " + typeText(schema)), fields(api, schema, 0) || "");
  }
  for (const [code, given] of Object.entries(operation.responses)) {
    const response = resolve(api, given);
    if (!/^2/.test(code)) continue;
    const media = response.content && Object.entries(response.content)[0];
    content.append(element("h4", {}, code + " " + response.description + (media ? " " + media[0] : "")));
    if (media) content.append(fields(api, media[1].schema, 0) || "");
  }
  const errors = Object.keys(operation.responses).filter((code) => /^[45]/.test(code));
  if (errors.length) content.append(element("p", { class: "quiet" }, "Errors: " + errors.join(", ")));
  content.append(element("pre", {}, curl(verb, path, operation)));
  const details = element("details", { id: operation.operationId, "data-words": (verb + " " + path + " " + JSON.stringify(operation)).toLowerCase() },
    element("summary", {}, element("span", { class: "verb " + verb }, verb.toUpperCase()), element("code", {}, path), " ",
      element("span", { class: "quiet" }, operation.summary || "")));
  // Most are never opened.
  details.addEventListener("toggle", () => { if (details.children.length === 1) details.append(content); });
  return details;
}

async function main() {
  const api = await (await fetch("/openapi.json")).json();
  document.getElementById("about").replaceChildren(api.info.description.replace(/([^\n])\n(?!\n)/g, "$1 ") + "\n\n", element("a", { href: "/openapi.json" }, "OpenAPI " + api.openapi));
  const page = document.getElementById("paths");
  for (const tag of api.tags) {
    const section = element("section", {}, element("h2", {}, tag.name), element("p", {}, tag.description || ""));
    for (const [path, item] of Object.entries(api.paths)) {
      for (const verb of verbs) {
        if (item[verb] && item[verb].tags.includes(tag.name)) section.append(show(api, path, verb, item[verb]));
      }
    }
    page.append(section);
  }
  // /docs#CreateNodePool leads to one operation.
  const wanted = document.getElementById(location.hash.slice(1));
  if (wanted && wanted.tagName === "DETAILS") {
    wanted.open = true;
    wanted.scrollIntoView();
  }
  document.getElementById("search").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const one of page.querySelectorAll("section > details")) one.hidden = !words.every((word) => one.dataset.words.includes(word));
  });
}

main().catch((error) => { document.getElementById("about").textContent = "The description cannot be read: " + error; });
