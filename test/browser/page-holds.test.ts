/**
 * The page holds, whatever the server is killed in: one round. `npm run page -- 10` plays ten, each with its kills in other places.
 */
import { test } from "node:test";
import { noBrowser } from "./chromium.ts";
import { HeldProvider } from "./held-provider.ts";
import { holds, holdsApproval, holdsUnsent, type Moment, POINT_NAMES } from "./page-holds.ts";
import { PageServer, Tab, visitor } from "./page-rig.ts";
import { TEST_MS } from "./waiting.ts";

const rounds = Number(process.env["HOLDFAST_PAGE_ROUNDS"] ?? 1);

for (let round = 1; round <= rounds; round++) {
  test(`G1: the page holds, round ${round}`, { skip: noBrowser ?? false, timeout: TEST_MS }, async (t) => {
    // In turn: a provider that continues what was cut off, and one that begins it anew.
    const provider = await HeldProvider.start(t, { continues: round % 2 === 1 });
    const server = await PageServer.start(t, provider);
    const context = await visitor(t);
    let tab = await Tab.open(context, server.link);
    await tab.isReady();
    let at = 3 * round;
    const next = (): Moment => ({ context, server, provider, at: (at += 7), to: 120 + at });
    for (const name of POINT_NAMES) {
      await t.test(name, async () => {
        tab = await holds(name, next(), tab);
      });
    }
    await t.test("a message to a dead server", () => holdsUnsent(next(), tab));
    await t.test("an approval that waits", () => holdsApproval(next(), tab));
  });
}
