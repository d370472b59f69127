/**
 * An API key that is revoked while its answers are open: at the gateway, by whichever header it came.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiKeys } from "../../../src/server/api-keys.ts";
import { memoryTableStore } from "../../store/memory-table-store.ts";
import { ask, bearer, eventually, VERSIONS } from "../../server/http/rig.ts";
import { askChat, openChat, startGateway } from "./gateway-rig.ts";
import { ended, ScriptedAnswer, text } from "./scripted-answers.ts";

for (const version of VERSIONS) {
  test(`E7: over HTTP/${version} a revoked API key ends its open answers, and no others`, async (t) => {
    const now = (): number => Date.now();
    const keys = new ApiKeys({ tables: memoryTableStore({ now }), now, cacheMs: 0 });
    const authenticate = (apiKey: string | undefined) => keys.authenticate(apiKey);
    const rig = await startGateway(t, {}, { recheckMs: 20, authenticate });
    const [revoked, limited, other] = [
      await keys.create("alice", "to be revoked"),
      await keys.create("alice", "with limits", { concurrency: 5 }),
      await keys.create("alice", "another of the same principal"),
    ];
    const answers: ScriptedAnswer[] = [];
    const opened = async (headers: Record<string, string>, path?: string) => {
      const answer = new ScriptedAnswer(`stream-${answers.length}`, [text(1, "so far")]);
      answers.push(answer);
      rig.answers.give(answer);
      const asked = path === undefined ? { headers } : { headers, method: "GET", path };
      const open = await openChat(t, rig, version, asked);
      await open.until("so far");
      return { answer, open };
    };
    // The rig adds an Authorization of its own beside other headers: it is not a good one here, and hides none.
    const cut = [
      await opened(bearer(revoked.apiKey)),
      await opened({ "x-api-key": revoked.apiKey }),
      await opened({ "api-key": revoked.apiKey }),
      await opened(bearer(revoked.apiKey), "/v1/streams/some-stream/events"),
      await opened(bearer(limited.apiKey)),
    ];
    const left = await opened(bearer(other.apiKey));
    const whole = new ScriptedAnswer("whole", []);
    rig.answers.give(whole);
    const before = rig.answers.chats.length;
    const waiting = assert.rejects(askChat(rig, version, { headers: bearer(revoked.apiKey) }));
    await eventually(() => rig.answers.chats.length > before, "it waits for its answer");

    await keys.revoke(revoked.record.id);
    await keys.revoke(limited.record.id);
    let cutCount = 0;
    for (const { open } of cut) open.ended.catch(() => cutCount++);
    await eventually(() => cutCount === cut.length, "they are cut");
    for (const { answer } of cut) {
      assert.equal(await answer.delivery, false, "what was cut counts as not delivered");
    }
    await waiting;
    for (const headers of [bearer(revoked.apiKey), { "x-api-key": limited.apiKey }]) {
      assert.equal((await ask(rig, version, { path: "/v1/models", headers })).status, 401);
    }
    left.answer.add(text(2, ", and more"), ended(3));
    await left.open.ended;
    assert.match(left.open.soFar(), /and more/);
    assert.equal(await left.answer.delivery, true);
  });
}
