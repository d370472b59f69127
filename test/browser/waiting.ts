/**
 * Waits for what a page shows, which no event of the browser tells.
 */
import assert from "node:assert/strict";

/** What a machine needs that is slow, loaded, and has yet to build the page; nothing waits for it when all is well. */
export const PATIENCE_MS = 240_000;

/** Of a test whose parts share a server and a browser. */
export const TEST_MS = 1_200_000;

/** The text that a page shows, as soon as it is the one that is waited for. */
export async function shownText(
  read: () => Promise<string>,
  isIt: (text: string) => boolean,
  what: string,
): Promise<string> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const text = await read();
    if (isIt(text)) return text;
    assert.ok(performance.now() < deadline, `it never happened: ${what}; what is shown is "${text}"`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
