/** A server meets a line of another version: the two part, and no call is lost or read by the wrong one. */
import assert from "node:assert/strict";
import { renameSync } from "node:fs";
import { connect, createServer } from "node:net";
import { basename } from "node:path";
import { test, type TestContext } from "node:test";
import { LineClient, type LinePlace } from "../../../../src/agent/models/line/line-client.ts";
import { LINE_VERSION } from "../../../../src/agent/models/line/line-wire.ts";
import { inTwo, partsOf, ProviderServer, textIn } from "../providers/server.ts";
import { WIRES } from "../providers/wires.ts";
import { askLine, LineRig } from "./line-rig.ts";

const [compatible] = WIRES;
assert.ok(compatible !== undefined);
const { answer, begun } = compatible;

/** Puts the line that listens there elsewhere, and in its place one that says an older version and is otherwise the same. */
async function aged(t: TestContext, { socketPath, secret }: LinePlace): Promise<LinePlace> {
  const moved = `${socketPath}.old`;
  renameSync(socketPath, moved);
  const older = createServer((socket) => {
    const line = connect(moved);
    socket.pipe(line);
    line.on("data", (bytes) => {
      const said = bytes
        .toString("latin1")
        .replace(`"version":${LINE_VERSION}`, `"version":${LINE_VERSION - 1}`);
      socket.write(Buffer.from(said, "latin1"));
    });
    line.on("end", () => socket.end());
    for (const side of [socket, line]) side.on("error", () => void [socket.destroy(), line.destroy()]);
  });
  await new Promise<void>((resolve) => older.listen(socketPath, resolve));
  t.after(() => void older.close());
  return { socketPath: moved, secret };
}

test("a line of another version is left alone: new calls go to a new line, and the old one brings its own to their end", async (t) => {
  const rig = new LineRig(t);
  const goOn = Promise.withResolvers<void>();
  const later = inTwo(answer.slice(0, begun), () => goOn.promise, answer.slice(begun));
  const provider = await ProviderServer.start(t, later);
  const place = await rig.ensure();
  const moved = await aged(t, place);
  const old = new LineClient(async () => moved);
  t.after(() => old.close());
  const under = partsOf(provider.model(compatible.type, { line: old }), rig.named("of the old server"));
  while (provider.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  const next = await rig.ensure();
  assert.equal(next.socketPath, place.socketPath);
  assert.notEqual(next.secret, place.secret);
  const pids = await Promise.all(
    [next, moved].map(
      async ({ socketPath }) => (await askLine(socketPath, { ask: "hello", nonce: "x" }))["pid"],
    ),
  );
  assert.notEqual(pids[0], pids[1]);
  const server = rig.server();
  const named = rig.named("of the new server");
  const calling = partsOf(provider.model(compatible.type, { line: server }), named);
  goOn.resolve();
  assert.equal(textIn(await under), "northeast");
  assert.equal(textIn(await calling), "northeast");
  assert.equal(provider.asked.length, 2);
  // Each line holds its own.
  const holds = async (line: LineClient): Promise<readonly string[]> =>
    (await line.held()).map(({ stream }) => stream.idempotencyKey);
  assert.deepEqual(await holds(old), ["of the old server"]);
  assert.deepEqual(await holds(server), ["of the new server"]);
});

test("the version is said before anything else, and is part of the socket's name", async (t) => {
  const rig = new LineRig(t);
  const { socketPath } = await rig.ensure();
  assert.match(basename(socketPath), new RegExp(`-${LINE_VERSION}\\.sock$`));
  // Without the secret, which a server of another version does not have.
  const { version } = await askLine(socketPath, { ask: "hello", nonce: "x" });
  assert.equal(version, LINE_VERSION);
});
