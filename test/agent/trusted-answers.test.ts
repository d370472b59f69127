/**
 * What the agent takes from a client: one result of each exec that it asked for, and bytes that are what their id says.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { TurnEndReason } from "../../src/protocol/messages.ts";
import { KeepingClient, type Reply, shellDone } from "./keeping-client.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { endOf, textOf } from "./told.ts";
import { TurnHost } from "./turn-host.ts";

/** What the model is shown of tools, call by call. */
function toolTexts(model: ScriptedModel): string {
  return JSON.stringify(model.calls.at(-1)?.messages.filter(({ role }) => role === "tool"));
}

test("A8: the first result of an exec counts; a second one, and one of an exec that was never asked, change nothing", async () => {
  const model = ScriptedModel.steps(
    [
      { tool: "shell", args: { command: "a" } },
      { tool: "shell", args: { command: "b" } },
    ],
    ["Done."],
  );
  const host = new TurnHost();
  const client = new KeepingClient(host);
  let asked = 0;
  client.carryOut = ({ id, execId, toolCallId }) => {
    const say = (reply: Reply, as = execId): void =>
      host.say({ case: "execClientMessage", value: { id, execId: as, toolCallId, message: reply } });
    asked++;
    say(shellDone(`first ${asked}\n`));
    say(shellDone(`second ${asked}\n`));
    // The short number and the provider's id are those of a real exec: only the exec id names it.
    say(shellDone(`foreign ${asked}\n`), "an exec that was never asked for");
    return undefined;
  };
  client.ask("Go");
  await host.finish(createAgent({ models: model.models }));
  assert.equal(textOf(host.messages), "Done.");
  assert.equal(model.calls.length, 2);
  const told = toolTexts(model);
  for (const word of ["first 1", "first 2"]) assert.ok(told.includes(word), told);
  for (const word of ["second", "foreign"]) assert.ok(!told.includes(word), told);
});

test("E5: a blob that a client sends under another blob's id is not given to the model", async () => {
  const model = ScriptedModel.steps(["Hello."]);
  const first = new KeepingClient(new TurnHost());
  first.ask("Remember the word amber");
  await first.host.finish(createAgent({ models: model.models }));
  const { checkpoint } = first;
  assert.ok(checkpoint !== undefined);

  // The next turn asks for the history; this client answers with words of its own, of the same kind and length.
  const forged = new Map(
    [...first.blobs].map(([id, bytes]) => {
      const text = Buffer.from(bytes).toString("latin1").replace("amber", "umber");
      return [id, Buffer.from(text, "latin1")];
    }),
  );
  const isForged = ([id, bytes]: readonly [string, Uint8Array]): boolean =>
    createHash("sha256").update(bytes).digest("hex") !== id;
  assert.ok([...forged].some(isForged), "a message of the history is forged");
  const host = new TurnHost();
  new KeepingClient(host, forged).ask("Which word?", { conversationState: checkpoint });
  await host.finish(createAgent({ models: model.models }));
  assert.equal(endOf(host.messages).reason, TurnEndReason.FAILED);
  assert.equal(model.calls.length, 1, "the model was not called with the forged history");
});
