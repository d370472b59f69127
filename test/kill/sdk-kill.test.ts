/** G1, G6 for users of stock SDKs, with real processes. `npm run kill -- --sdk --cycles 60` does it at every stage, by every signal. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkSdkCase, type SdkCase, sdkCaseName, SdkRig } from "./sdk-cases.ts";

/** One of each signal. */
const CASES: readonly SdkCase[] = [
  { sdk: "openai SDK", signal: "SIGKILL", stage: "second first", words: 1, isDeafToIt: true },
  { sdk: "AI SDK", signal: "SIGTERM", stage: "text", words: 9, isDeafToIt: false },
  { sdk: "openai SDK", signal: "SIGKILL of the group", stage: "text", words: 4, isDeafToIt: true },
];

test("G6: stock SDKs with holdfast/fetch, the server killed and stopped in mid-answer: one request for each answer", async (t) => {
  const rig = await SdkRig.begin(t);
  for (const one of CASES)
    await t.test(sdkCaseName(one), async () => {
      checkSdkCase(one, await rig.run(one));
      assert.equal(await rig.savedByLine(), 1, "and it is counted");
    });
});
