// The description of the API as a page.
const place = document.getElementById("api");
function make(tag, text, ...inside) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...inside);
  return made;
}
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return [schema.type, schema.format].filter(Boolean).join(", ") || "anything";
}
function row(name, where, required, schema, text) {
  return make("tr", "", make("td", name), make("td", where), make("td", required ? "needed" : ""), make("td", typeOf(schema)),
    make("td", text || (schema && schema.description) || ""));
}
function parameters(one) {
  const rows = (one.parameters || []).map((p) => row(p.name, p.in, p.required, p.schema, p.description));
  const content = one.requestBody && one.requestBody.content;
  const body = content && content["application/json"] && content["application/json"].schema;
  if (content && !body) rows.push(row("", "body", true, { type: Object.keys(content)[0] }, "The body is the bytes."));
  for (const [name, schema] of Object.entries((body && body.properties) || {}))
    rows.push(row(name, "body", (body.required || []).includes(name), schema));
  if (!rows.length) return make("p", "No parameters.");
  const head = make("tr", "", ...["Name", "In", "", "Type", ""].map((text) => make("th", text)));
  return make("table", "", make("thead", "", head), make("tbody", "", ...rows));
}
function sample(method, path, one) {
  const content = one.requestBody && one.requestBody.content;
  const body = !content ? "" : content["application/json"] ? ` \\\n  --json '{}'` : ` \\\n  --data-binary @FILE`;
  return make("pre", `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${location.origin}${path} \\\n  -H "Authorization: Bearer $CLEW_KEY"${body}`);
}
function operation(method, path, one, schemas) {
  const name = make("span", method.toUpperCase());
  name.className = "method";
  const summary = make("summary", "", name, make("code", path), make("small", ` ${one.summary}`));
  const result = one.responses["200"].content;
  const kind = Object.keys(result)[0];
  const schema = result[kind].schema;
  const told = make("details", "", make("summary", `Answers: ${kind} ${typeOf(schema)}`), make("pre", JSON.stringify(expand(schema, schemas), null, 1)));
  const made = make("details", "", summary, make("p", one.description), parameters(one), sample(method, path, one), told);
  made.id = one.operationId;
  return made;
}
function expand(schema, schemas, depth = 0) {
  if (!schema || depth > 3 || typeof schema !== "object") return schema;
  if (schema.$ref) return expand(schemas[schema.$ref.split("/").pop()], schemas, depth + 1);
  if (Array.isArray(schema)) return schema.map((one) => expand(one, schemas, depth));
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, expand(value, schemas, depth)]));
}
fetch("/openapi.json").then((answer) => answer.json()).then((api) => {
  const groups = {};
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, one] of Object.entries(methods))
      (groups[one.tags[0]] ||= []).push(operation(method, path, one, api.components.schemas));
  place.replaceChildren(...Object.entries(groups).map(([name, all]) => make("section", "", make("h2", name), ...all)));
  if (location.hash) document.getElementById(location.hash.slice(1))?.setAttribute("open", "");
});
