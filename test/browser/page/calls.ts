/**
 * How a test in Node calls what a page offers: by name, arguments and answers as JSON.
 */
import type { Page } from "playwright-core";

type Offer = Record<string, (...args: never[]) => unknown>;

export type Answer<Offered extends Offer, Name extends keyof Offered> = Awaited<ReturnType<Offered[Name]>>;

/** In the page. */
export function offer(offered: Offer): void {
  Object.assign(globalThis, { offered });
}

/** In Node. */
export async function call<Offered extends Offer, Name extends keyof Offered & string>(
  page: Page,
  name: Name,
  ...args: Parameters<Offered[Name]>
): Promise<Answer<Offered, Name>> {
  return page.evaluate<Answer<Offered, Name>>(`offered.${name}(...${JSON.stringify(args)})`);
}
