/**
 * Claude Code, the real binary, against `holdfast serve`: its tool runs once and the model is called once for each step, whatever breaks.
 *
 * Its Bash is held by a file, so that the server is killed between the call and its result. A message that was cut it asks for again by itself, also behind a
 * complete call. It does not count its tries: the gateway knows a retry by the session that Claude Code names.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openaiEvents } from "../../agent/models/providers/formats.ts";
import { openaiProvider, textOf } from "../../agent/models/providers/scripted.ts";
import { inTwo } from "../../agent/models/providers/server.ts";
import { behind } from "../cable.ts";
import { Claude, claudeFor, claudeSettings } from "./claude-binary.ts";
import { assertEachExtendsTheOneBefore, LOCAL } from "./served-gateway.ts";
import { StandingGateway } from "./standing-gateway.ts";
import { Stop } from "./staged-notes.ts";

/** The role and three words. */
const HELD = 4;
const STOPPED = "event: message_delta";

/** Its effect comes first; then it runs until the test lets it end. */
const makes = (file: string) => ({
  description: `Makes ${file}`,
  command: `echo made >> ${file}; until [ -e go-${file} ]; do sleep 0.1; done`,
});

test("Claude Code: cut, killed between call and result, cut again, and continued: the tool runs once, no call is paid twice", async (t) => {
  const binary = await claudeFor(t);
  if (binary === undefined) return;
  const stops = new Map<string, Stop>();
  const provider = await openaiProvider(t, (messages) => {
    const asked = textOf(messages.findLast(({ role }) => role === "user"));
    const [, file] = /Make (\S+)\./.exec(asked) ?? [];
    const isAnswered = messages.at(-1)?.["role"] === "tool";
    const said =
      file === undefined
        ? { text: "It still is." }
        : isAnswered
          ? { text: "There it yonder stands." }
          : { text: "It is wrought now.", calls: [{ name: "Bash", args: makes(file) }] };
    const stop = stops.get(said.text);
    stops.delete(said.text);
    if (stop === undefined) return said;
    const events = openaiEvents(said);
    return inTwo(events.slice(0, HELD), () => stop.pass(), events.slice(HELD));
  });
  const gateway = await StandingGateway.begin(t, { provider });
  const { baseURL, apiKey, workspace: home, cable } = gateway;
  const settings = claudeSettings(LOCAL, baseURL.replace(/\/v1$/, ""), apiKey);
  const claude = new Claude({ binary, home, settings });
  const made = (file: string) => join(claude.project, file);

  /** The answer that begins so is cut in its text; what asks again gets the rest. */
  const cutIn = async (text: string, at: string, run: Promise<unknown>): Promise<void> => {
    const stop = new Stop();
    stops.set(text, stop);
    const cut = cable.cutNextAt(behind(at));
    await Promise.race([cut, run.then(() => assert.fail("nothing was cut"))]);
    cable.hold();
    await gateway.isLeft();
    stop.release();
    cable.letGo();
  };

  await t.test("one task, broken three times, and a second turn", async () => {
    const start = Promise.withResolvers<void>();
    const run = start.promise.then(() => claude.ask("Make one.txt."));
    const ended = run.then(({ stdout, stderr }) => assert.fail(`it ended too early: ${stdout} ${stderr}`));
    const cut = cutIn("It is wrought now.", "wrought", run);
    start.resolve();
    await cut;
    while (!existsSync(made("one.txt"))) await Promise.race([sleep(20), ended]);
    assert.equal(provider.calls.length, 1, "the retry came to the answer that was under way");
    await gateway.crash();
    const again = cutIn("There it yonder stands.", "yonder", run);
    writeFileSync(made("go-one.txt"), "");
    await again;
    const { code, stdout, stderr } = await run;
    assert.equal(code, 0, stderr);
    assert.match(stdout, /There it yonder stands\./);
    assert.equal(readFileSync(made("one.txt"), "utf8"), "made\n");
    assert.equal(provider.calls.length, 2);

    const second = await claude.ask("And now, a second question?", "-c");
    assert.equal(second.code, 0, second.stderr);
    assert.match(second.stdout, /It still is\./);
    assert.equal(provider.calls.length, 3);
    assertEachExtendsTheOneBefore(provider.calls);
    const { continued_turn, continued_conversation, ...rest } = await gateway.answers();
    assert.deepEqual([continued_turn, continued_conversation], [1, 1]);
    assert.ok(!Object.keys(rest).some((how) => how.startsWith("fresh")), JSON.stringify(rest));
  });

  for (const how of ["end", "reset"] as const) {
    await t.test(`cut by ${how} behind a complete call and before the end`, async () => {
      const file = `${how}.txt`;
      writeFileSync(made(`go-${file}`), "");
      const calls = provider.calls.length;
      const cut = cable.cutNextAt(behind(STOPPED, -STOPPED.length), how);
      const run = claude.ask(`Make ${file}.`);
      await Promise.race([cut, run.then(() => assert.fail("nothing was cut"))]);
      const { code, stdout, stderr } = await run;
      assert.equal(code, 0, stderr);
      assert.match(stdout, /There it yonder stands\./);
      assert.equal(readFileSync(made(file), "utf8"), "made\n");
      assert.equal(provider.calls.length - calls, 2);
    });
  }
});
