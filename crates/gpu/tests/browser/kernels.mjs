// Compiles kernels in headless Chromium. Arguments: a file of JSON with the kernels, and the path of Chromium.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [, , file, executablePath] = process.argv;
const { prelude, packages, kernels } = JSON.parse(readFileSync(file, "utf8"));
const { chromium } = createRequire(`${packages}/package.json`)("playwright-core");

const args = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
const browser = await chromium.launch({ executablePath, args });
const page = await browser.newPage();
await page.goto("file:///"); // WebGPU is there in secure contexts alone
const errors = await page.evaluate(async ({ prelude, kernels }) => {
  const adapter = await navigator.gpu.requestAdapter();
  const requiredFeatures = ["subgroups", ...(adapter.features.has("shader-f16") ? ["shader-f16"] : [])];
  const device = await adapter.requestDevice({ requiredFeatures });
  const errors = [];
  for (const { label, text } of kernels) {
    device.pushErrorScope("validation");
    const { messages } = await device.createShaderModule({ code: prelude + text }).getCompilationInfo();
    await device.popErrorScope();
    const error = messages.find(({ type }) => type === "error");
    if (error) errors.push(`${label}: ${error.message}: ${(prelude + text).split("\n")[error.lineNum - 1]}`);
  }
  return errors;
}, { prelude, kernels });
await browser.close();
if (errors.length > 0) {
  console.error(`${errors.length} of ${kernels.length} kernels:\n${errors.join("\n")}`);
  process.exit(1);
}
console.log(`all kernels compile: ${kernels.length}`);
