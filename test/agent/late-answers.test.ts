/**
 * Answers of execs that come at any moment, however the agent is busy just then.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgent } from "../../src/agent/index.ts";
import { KeepingClient, shellDone } from "./keeping-client.ts";
import { ScriptedModel } from "./scripted-model.ts";
import { TurnHost } from "./turn-host.ts";

const MOMENTS = 40;

test("C1: an exec is asked once, whenever its answer comes", async () => {
  for (let moment = 0; moment < MOMENTS; moment++) {
    const model = ScriptedModel.steps(
      [
        { tool: "shell", args: { command: "a" } },
        { tool: "shell", args: { command: "b" } },
      ],
      ["Done."],
    );
    const host = new TurnHost();
    const client = new KeepingClient(host);
    client.carryOut = () => shellDone("a\n");
    const { onEvent } = host;
    host.onEvent = (message, eventId) => {
      const answer = async (): Promise<void> => {
        for (let at = 0; at < moment; at++) await Promise.resolve();
        onEvent(message, eventId);
      };
      if (message.message.case === "execServerMessage") void answer();
      else onEvent(message, eventId);
    };
    client.ask("Go");
    await host.finish(createAgent({ models: model.models }));
    const asked = host.messages.filter(({ message }) => message.case === "execServerMessage");
    assert.equal(asked.length, 2, `answered ${moment} moments later`);
    assert.equal(model.calls.length, 2);
  }
});
