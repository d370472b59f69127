/** A turn that ends after a restart leaves nothing at the line, also when its log has nothing of the call that is held there. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { endingHeldCalls } from "../../src/node/held-calls.ts";
import { TurnEndReason } from "../../src/protocol/messages.ts";
import { KeepingClient, shellDone } from "../agent/keeping-client.ts";
import { LineRig, until } from "../agent/models/line/line-rig.ts";
import { events, ProviderServer, silent } from "../agent/models/providers/server.ts";
import { endOf, kindsOf } from "../agent/told.ts";
import { TurnHost } from "../agent/turn-host.ts";

const rig = new LineRig({ after });

/** Of an openai-compatible provider. */
const CALL = {
  index: 0,
  id: "call",
  type: "function",
  function: { name: "shell", arguments: '{"command":"ls"}' },
};
const CALLS = events(
  { choices: [{ index: 0, delta: { role: "assistant", tool_calls: [CALL] } }] },
  { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
);

for (const { which, acts } of [
  { which: "first", acts: [silent] },
  { which: "second", acts: [CALLS, silent] },
])
  test(`G4: a cancel that meets a restarted server ends the held call of the ${which} step, of which no event is durable`, async (t) => {
    const provider = await ProviderServer.start(t, ...acts);
    const line = rig.server();
    const model = provider.model("openai-compatible", { line });
    const application = endingHeldCalls(
      createAgent({ models: { resolve: () => model, list: () => [] } }),
      line,
    );
    const host = new TurnHost();
    const client = new KeepingClient(host);
    client.carryOut = () => shellDone("a\n");
    client.ask("Go");
    const killed = host.run(application);
    await until(() => provider.asked.length === acts.length);
    host.lose();
    assert.equal(await killed, false);
    assert.equal((await line.held()).length, 1);
    host.events.splice(kindsOf(host.messages).lastIndexOf("stepStarted"));
    host.say({ case: "conversationAction", value: { action: { case: "cancelAction", value: {} } } });
    await host.finish(application);
    assert.equal(endOf(host.messages).reason, TurnEndReason.ABORTED);
    assert.deepEqual(await line.held(), []);
    await provider.asked.at(-1)?.gone;
    assert.equal(provider.asked.length, acts.length);
  });
