// The route of deploy/inference-pool.yaml, by the schema of the Gateway API (npm @kubernetes-models/gateway-api).
//
// usage: route.mjs FILE
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import { loadAll } from "js-yaml";

const route = loadAll(readFileSync(process.argv[2], "utf8")).find((object) => object.kind === "HTTPRoute");
new HTTPRoute(route).validate();

// the schema sees what is wrong
const refuses = (change) => {
  const wrong = structuredClone(route);
  change(wrong.spec.rules[0]);
  assert.throws(() => new HTTPRoute(wrong).validate());
};
refuses((rule) => (rule.timeouts.request = "soon"));
refuses((rule) => (rule.backendRefs[0].name = 5));
refuses((rule) => delete rule.backendRefs[0].name);
console.log("all checks passed");
