/**
 * A server without a provider dies in the middle of an answer: the rehearsal model says it again, and what its log lacks continues it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { createModels } from "../../src/agent/models/index.ts";
import { TurnEndReason } from "../../src/protocol/messages.ts";
import { KeepingClient, shellDone } from "./keeping-client.ts";
import { endOf, kindsOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

const SCRIPT = 'think one two\nsay three four\ncall shell {"command":"ls"}\nsay the result\nsay five six';
const TEXT = 'three fourThe tool\'s outcome is "done": a  five six';

interface Played {
  readonly host: TurnHost;
  readonly client: KeepingClient;
  readonly continued: readonly string[];
}

/** Every run is another process, with models of its own. */
async function play(loseAt: readonly number[]): Promise<Played> {
  const host = new TurnHost();
  const client = new KeepingClient(host);
  client.carryOut = () => shellDone("a\n");
  client.ask(SCRIPT, { options: { shownIsFinal: true } });
  const continued: string[] = [];
  const onContinued = (how: string): void => void continued.push(how);
  const run = (): Promise<boolean> =>
    host.run(createAgent({ models: createModels({ environment: {}, onContinued }) }));
  for (const at of loseAt) {
    host.loseAt = at;
    if (await run()) return { host, client, continued };
  }
  host.loseAt = undefined;
  while (!(await run()));
  return { host, client, continued };
}

function assertWhole({ host, client }: Played): void {
  assert.equal(endOf(host.messages).reason, TurnEndReason.COMPLETED);
  const kinds = kindsOf(host.messages);
  for (const again of ["stepRestarted", "stepContinued"]) assert.ok(!kinds.includes(again), again);
  assert.equal(textOf(host.messages).replaceAll("\n", " "), TEXT);
  assert.deepEqual([...client.effects.values()], [1]);
}

test("C0: killed after any event, and again, no step of the rehearsal model begins anew", async () => {
  const whole = await play([]);
  assertWhole(whole);
  assert.deepEqual(whole.continued, []);
  const { length } = whole.host.events;
  for (let at = 1; at < length; at++) {
    try {
      assertWhole(await play([at, at + 1 + (at % 3)]));
    } catch (cause) {
      throw new Error(`killed after event ${at} of ${length}`, { cause });
    }
  }
});

test("C0: killed after every third event, far more often than a step may begin anew, it continues all the same", async () => {
  const played = await play(Array.from({ length: 20 }, (_, at) => 2 + 3 * at));
  assertWhole(played);
  assert.ok(played.continued.includes("replay"), "and the server says so");
});
