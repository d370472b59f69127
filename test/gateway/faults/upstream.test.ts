/**
 * A gateway whose streams are at a server elsewhere, both as processes: the server is killed while an answer is being told, and the
 * gateway's response goes on. And what `holdfast sessions` says of it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Cli } from "../../cli/cli-process.ts";
import { bodyOf, Exchange, result, said, tool, user } from "../openai-user.ts";

const MODEL = { model: "rehearsal/rehearsal" };

test("a server elsewhere dies in the middle of an answer: the response of the gateway goes on and is whole", async (t) => {
  const [far, near] = [new Cli(t), new Cli(t)];
  let server = await far.serve();
  const { port } = new URL(server.url);
  const gateway = await near.serve(["--upstream-server", server.url], {
    HOLDFAST_UPSTREAM_API_KEY: server.apiKey,
  });
  const asked = bodyOf([user("count to 60 every 20 ms")], MODEL);
  const exchange = new Exchange(gateway.url, asked, { apiKey: gateway.apiKey });
  await exchange.until("10 ");
  server.signal("SIGKILL");
  await server.exit;
  server = await far.serve(["--port", port]);
  const reply = await exchange.reply();
  assert.equal(reply.finish, "stop", reply.body.slice(-500));
  assert.equal(reply.text, Array.from({ length: 60 }, (_, at) => `${at + 1} `).join(""));
  assert.ok(reply.isWhole);
});

test("holdfast sessions lists what waits for tools, and nothing of what was said", async (t) => {
  const cli = new Cli(t);
  const gateway = await cli.serve();
  const tools = [tool("echo")];
  const asked = [user("tool canary-of-the-user")];
  const ask = (messages: readonly object[]) =>
    new Exchange(
      gateway.url,
      bodyOf(
        messages.map((line) => ({ ...line })),
        { ...MODEL, tools },
      ),
      {
        apiKey: gateway.apiKey,
      },
    ).reply();
  const before = await cli.run(["sessions", ...cli.inDataDir]);
  assert.match(before.stderr, /No session is open/);
  const reply = await ask(asked);
  assert.equal(reply.finish, "tool_calls", reply.body);
  const listed = await cli.run(["sessions", ...cli.inDataDir]);
  assert.match(
    listed.stdout,
    new RegExp(`^${reply.streamId} +default +rehearsal/rehearsal +parked +1 `, "m"),
  );
  assert.doesNotMatch(listed.stdout, /canary/);
  const json = await cli.run(["sessions", "--json", ...cli.inDataDir]);
  assert.match(json.stdout, /"state":"parked","pending":1/);
  const results = reply.calls.map(({ id }) => result(id, "heard"));
  assert.equal((await ask([...asked, said(reply), ...results])).finish, "stop");
  assert.match((await cli.run(["sessions", ...cli.inDataDir])).stderr, /No session is open/);
  gateway.signal("SIGTERM");
  await gateway.exit;
  const none = await cli.run(["sessions", ...cli.inDataDir]);
  assert.deepEqual([none.code, /no server runs on/.test(none.stderr)], [1, true]);
});
