/**
 * OpenCode, the real binary, while `holdfast serve` is killed with SIGKILL: while its bash tool runs, and in the middle of the answer.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Asked, silentAfter } from "../../agent/models/providers/server.ts";
import { behind } from "../cable.ts";
import { openaiEvents } from "../../agent/models/providers/formats.ts";
import { openaiProvider, toolsOf } from "../../agent/models/providers/scripted.ts";
import { binaryFor, Opencode } from "./opencode-binary.ts";
import { LOCAL } from "./served-gateway.ts";
import { StandingGateway } from "./standing-gateway.ts";

/** Its effect comes first; then it runs until the test lets it end. */
const MAKES = {
  command: "echo made >> made.txt; until [ -e go ]; do sleep 0.1; done",
  description: "Makes the file",
};

/** Without tools it is asked for a title. */
const isTitle = (asked: Asked): boolean => toolsOf(asked).length === 0;

test("OpenCode: the gateway is killed while its tool runs and in the middle of the answer, the tool runs once", async (t) => {
  const binary = await binaryFor(t);
  if (binary === undefined) return;
  let isHeld = false;
  const provider = await openaiProvider(t, (messages, asked) => {
    if (isTitle(asked)) return { text: "A file" };
    if (messages.at(-1)?.["role"] !== "tool") {
      return { text: "I make it.", calls: [{ name: "bash", args: MAKES }] };
    }
    const answer = { text: "It stands there." };
    if (isHeld) return answer;
    isHeld = true;
    return silentAfter(...openaiEvents(answer).slice(0, 3));
  });
  const gateway = await StandingGateway.begin(t, { provider });
  const { baseURL, apiKey, workspace: home } = gateway;
  const opencode = new Opencode({ binary, home, baseURL, apiKey, model: LOCAL });
  const made = join(opencode.project, "made.txt");
  const run = opencode.run("Make the file.");
  const ended = run.then(({ stderr }) => assert.fail(`it ended too early: ${stderr}`));

  while (!existsSync(made)) await Promise.race([sleep(20), ended]);
  await gateway.crash();
  const hasCome = gateway.cable.hasCome(behind("stands"));
  writeFileSync(join(opencode.project, "go"), "");

  await Promise.race([hasCome, ended]);
  await gateway.crash();

  const { code, stdout, stderr } = await run;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /It stands there\.\s*$/);
  assert.equal(readFileSync(made, "utf8"), "made\n");
  const turns = provider.calls.filter((asked) => !isTitle(asked));
  assert.equal(turns.length, 3, "two steps, and the one that was interrupted again");
});
