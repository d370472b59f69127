/**
 * `npm run clients [-- --only CLIENT]`: every client, place and break, with `holdfast/fetch` and without. Prints a line for each and a table; fails when a user with
 * `holdfast/fetch` sees anything, or a cut costs a model call.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../../scripts/arguments.ts";
import { binaryFor } from "../gateway/clients/opencode-binary.ts";
import { BREAKS, CLIENTS, ClientWorld, OPENCODE, PLACES, SEEN } from "./client-cases.ts";
import { installSdks } from "./sdk-programs.ts";

/** Two answers. */
const CALLS = 2;
const { only } = parse({ only: { type: "string", default: "" } }, "npm run clients -- [--only CLIENT]");

test("clients", async (t) => {
  await installSdks();
  const opencode = await binaryFor(t);
  const clients = CLIENTS.filter((name) => name !== OPENCODE || opencode !== undefined);
  const rows: string[] = [];
  for (const client of clients.filter((name) => name.includes(only)))
    for (const hasFetch of [true, false])
      for (const how of BREAKS) {
        const world = await ClientWorld.begin(t, opencode);
        const seen = new Map<string, number>();
        let calls = 0;
        for (const place of PLACES) {
          const outcome = await world.run({ client, hasFetch, place, how });
          const isWhole = outcome.said === SEEN && outcome.looks === 1;
          const { error, said, looks } = outcome;
          const other = `the text "${said}", and its tool ran ${looks} times`;
          const what = isWhole ? "nothing" : (error?.slice(0, 60) ?? other);
          const with_ = hasFetch ? "with" : "without";
          process.stdout.write(
            `${client}, ${with_}, ${how} ${place.name} (${place.at}): ${what}, ${outcome.calls} calls\n`,
          );
          seen.set(isWhole ? "nothing" : "an error", (seen.get(isWhole ? "nothing" : "an error") ?? 0) + 1);
          calls += outcome.calls;
          if (hasFetch) assert.ok(isWhole, JSON.stringify(outcome));
          if (hasFetch && how !== "kill")
            assert.equal(outcome.calls, CALLS, JSON.stringify({ place, outcome }));
        }
        const sees = [...seen].map(([what, count]) => `${what} ${count}`).join(", ");
        rows.push(
          `| ${client} | ${hasFetch ? "yes" : "no"} | ${how} | ${sees} | ${calls} for ${PLACES.length * CALLS} |`,
        );
      }
  process.stdout.write(
    `\n| client | holdfast/fetch | break | the user sees | model calls |\n|---|---|---|---|---|\n${rows.join("\n")}\n`,
  );
});
