/**
 * Codex, the real binary, against `holdfast serve`: its tool runs once and the model is called once for each step, whatever breaks.
 *
 * Its exec_command is held by a file, so that the server is killed between the call and its result. A response that was cut it asks for again by itself; one that was
 * cut behind a complete call it takes for said, runs the tool, and continues.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openaiEvents } from "../../agent/models/providers/formats.ts";
import { openaiProvider, textOf } from "../../agent/models/providers/scripted.ts";
import { inTwo } from "../../agent/models/providers/server.ts";
import { blocksRunBy } from "../../docs/blocks.ts";
import { behind } from "../cable.ts";
import { Codex, codexFor } from "./codex-binary.ts";
import { assertEachExtendsTheOneBefore, LOCAL } from "./served-gateway.ts";
import { StandingGateway } from "./standing-gateway.ts";
import { Stop } from "./staged-notes.ts";

/** The role and three words, the last of which is no word of Codex's own: a response repeats its instructions. */
const HELD = 4;
const COMPLETED = "event: response.completed";

/** The one of `docs/GATEWAY.md`, for this model and this server. */
function codexConfig(model: string, baseURL: string): string {
  const [block] = blocksRunBy("test/gateway/clients/codex.test.ts");
  assert.ok(block !== undefined);
  return block.text.replace("rehearsal", model).replace("http://127.0.0.1:4600/v1", baseURL);
}

/** Its effect comes first; then it runs until the test lets it end. */
const makes = (file: string) => ({
  cmd: `echo made >> ${file}; until [ -e go-${file} ]; do sleep 0.1; done`,
  yield_time_ms: 60_000,
});

test("Codex: cut, killed between call and result, cut again, and resumed: the tool runs once, no call is paid twice", async (t) => {
  const binary = await codexFor(t);
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
          : { text: "It is wrought now.", calls: [{ name: "exec_command", args: makes(file) }] };
    const stop = stops.get(said.text);
    stops.delete(said.text);
    if (stop === undefined) return said;
    const events = openaiEvents(said);
    return inTwo(events.slice(0, HELD), () => stop.pass(), events.slice(HELD));
  });
  const gateway = await StandingGateway.begin(t, { provider });
  const { baseURL, apiKey, workspace: home, cable } = gateway;
  const codex = new Codex({ binary, home, apiKey, config: codexConfig(LOCAL, baseURL) });
  const made = (file: string) => join(codex.project, file);

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
    const run = start.promise.then(() => codex.exec("Make one.txt."));
    const ended = run.then(({ stderr }) => assert.fail(`it ended too early: ${stderr}`));
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

    const second = await codex.resume("And now, a second question?");
    assert.equal(second.code, 0, second.stderr);
    assert.match(second.stdout, /It still is\./);
    assert.equal(provider.calls.length, 3);
    assertEachExtendsTheOneBefore(provider.calls);
    const { continued_turn, continued_conversation, ...rest } = await gateway.answers();
    assert.deepEqual([continued_turn, continued_conversation], [1, 1]);
    assert.ok(!Object.keys(rest).some((how) => how.startsWith("fresh")), JSON.stringify(rest));
  });

  await t.test(
    "cut behind a complete call and before the end: Codex runs the tool, and the turn continues",
    async () => {
      writeFileSync(made("go-two.txt"), "");
      const calls = provider.calls.length;
      const cut = cable.cutNextAt(behind(COMPLETED, -COMPLETED.length));
      const run = codex.exec("Make two.txt.");
      await Promise.race([cut, run.then(() => assert.fail("nothing was cut"))]);
      const { code, stdout, stderr } = await run;
      assert.equal(code, 0, stderr);
      assert.match(stdout, /There it yonder stands\./);
      assert.equal(readFileSync(made("two.txt"), "utf8"), "made\n");
      assert.equal(provider.calls.length - calls, 2);
    },
  );

  await t.test(
    "cut in a text that the gateway has sent whole: Codex asks again, and nothing is generated again",
    async () => {
      const calls = provider.calls.length;
      const cut = cable.cutNextAt(behind("event: response.output_text.done"));
      const run = codex.exec("A third question?");
      await Promise.race([cut, run.then(() => assert.fail("nothing was cut"))]);
      const { code, stdout, stderr } = await run;
      assert.equal(code, 0, stderr);
      assert.match(stdout, /It still is\./);
      assert.equal(provider.calls.length - calls, 1);
    },
  );
});
