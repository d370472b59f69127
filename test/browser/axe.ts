/** What a person without eyes, colours or a mouse could not use of a page, as `axe-core` finds it. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

let axe: string | undefined;

/** The serious ones, each with where it is. */
export async function faultsOf(page: Page): Promise<readonly string[]> {
  axe ??= readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  const { violations } = await page.evaluate<AxeResults>(
    `${axe}; axe.run(document, { resultTypes: ["violations"] })`,
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}
