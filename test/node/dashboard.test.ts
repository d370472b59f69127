/**
 * Grafana's dashboard asks only for metrics that a server has, by labels that they have.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { z } from "zod";
import { Cli } from "../cli/cli-process.ts";

const DASHBOARD = z.object({
  panels: z.array(z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })) })),
});
const path = join(import.meta.dirname, "../../deploy/grafana-dashboard.json");
const { panels } = DASHBOARD.parse(JSON.parse(readFileSync(path, "utf8")));
const operations = readFileSync(join(import.meta.dirname, "../../docs/OPERATIONS.md"), "utf8");

/** The names that a query has, without the endings of a histogram. */
function metricsIn(expr: string): readonly string[] {
  return (expr.match(/\b(?:holdfast|process)_\w+/g) ?? []).map((name) =>
    name.replace(/_(?:bucket|sum|count)$/, ""),
  );
}

test("every query of the dashboard is about metrics that /metrics has", async (t) => {
  const server = await new Cli(t, { hasLine: true }).serve();
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const there = new Set([...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name));
  for (const { title, targets } of panels) {
    assert.ok(targets.length > 0, title);
    for (const { expr } of targets) {
      assert.ok(metricsIn(expr).length > 0, `${title}: ${expr}`);
      for (const name of metricsIn(expr)) assert.ok(there.has(name), `${title} asks for ${name}`);
    }
  }
  server.signal("SIGTERM");
  await server.exit;
});

test("every label that the dashboard groups or selects by is one of its metric's", () => {
  let selected = 0;
  for (const { title, targets } of panels) {
    for (const { expr } of targets) {
      const groups = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = ""]) => names.split(/,\s*/));
      const selectors = [...expr.matchAll(/(\w+)=~?"/g)].map(([, name = ""]) => name);
      selected += selectors.length;
      const labels = [...groups, ...selectors];
      const row = (name: string): string =>
        new RegExp(`^\\| \`${name}\`.*$`, "m").exec(operations)?.[0] ?? "";
      for (const label of labels.filter((one) => one !== "le" && one !== "instance")) {
        const rows = metricsIn(expr).map(row);
        assert.ok(
          rows.every((one) => one.includes(`\`${label}\``)),
          `${title} is about ${label}`,
        );
      }
      // A value that no server says selects nothing, and the panel stays empty without a word.
      for (const [, metric = "", how = ""] of expr.matchAll(/(\w+)\{how=~"([^"]*)"/g)) {
        for (const value of how.split("|"))
          assert.ok(row(metric).includes(`\`${value}\``), `${title}: ${value}`);
      }
    }
  }
  assert.ok(selected > 0);
});
