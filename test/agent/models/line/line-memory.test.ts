/** What the line keeps in its memory: no API key behind the begin of an answer, no more than its bounds; and what a machine that slept does to it. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { asking } from "../../../../src/agent/models/line/line-client.ts";
import { Line } from "../../../../src/agent/models/line/line-process.ts";
import { LINE_DEFAULTS, type LineSettings } from "../../../../src/agent/models/line/line-wire.ts";
import { openLine } from "../../../../src/node/line-life.ts";
import type { Cleanup } from "../../../cleanup.ts";
import { API_KEY, ProviderServer } from "../providers/server.ts";
import { askLine, LineRig, until } from "./line-rig.ts";

const PROGRAM = fileURLToPath(new URL("../../../../src/agent/models/line/line-process.ts", import.meta.url));
const SECRET = "5".repeat(64);
const MIB = 1024 * 1024;

/** A line in a process of its own, whose memory can be looked at. */
class SeenLine {
  readonly socketPath: string;
  readonly #process: ChildProcess;
  readonly #snapshots: string;

  private constructor(process: ChildProcess, socketPath: string, snapshots: string) {
    this.#process = process;
    this.socketPath = socketPath;
    this.#snapshots = snapshots;
  }

  static async start(t: Cleanup, rig: LineRig, bounds: Partial<LineSettings> = {}): Promise<SeenLine> {
    const [socketPath, snapshots] = [join(rig.directory, "seen.sock"), join(rig.directory, "snapshots")];
    mkdirSync(snapshots);
    const args = ["--heapsnapshot-signal=SIGUSR2", `--diagnostic-dir=${snapshots}`, PROGRAM];
    const line = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "ignore", "pipe"] });
    t.after(() => void line.kill("SIGKILL"));
    const pipe = line.stdio[3];
    assert.ok(pipe instanceof Duplex);
    pipe.end(JSON.stringify({ ...LINE_DEFAULTS, ...bounds, socketPath, secret: SECRET }));
    await once(pipe, "data");
    return new SeenLine(line, socketPath, snapshots);
  }

  /** A call that this asks for. Nothing of the answer is read. */
  call(t: Cleanup, name: string, url: string): Socket {
    const headers = { authorization: `Bearer ${API_KEY}`, "content-type": "application/json" };
    const stream = { principal: "alice", idempotencyKey: name };
    const call = { method: "POST", url, headers, label: "0 target", stream };
    const socket = asking(
      this.socketPath,
      { secret: SECRET, ask: "attach", name, epoch: 1, call },
      Buffer.from("{}"),
    );
    socket.on("error", () => undefined);
    t.after(() => void socket.destroy());
    return socket;
  }

  /** Everything that can be reached in its memory. */
  async heap(): Promise<string> {
    const before = readdirSync(this.#snapshots).length;
    this.#process.kill("SIGUSR2");
    for (;;) {
      await sleep(100);
      // Their names rise.
      const files = readdirSync(this.#snapshots).toSorted();
      if (files.length === before) continue;
      const text = readFileSync(join(this.#snapshots, files.at(-1) ?? ""), "utf8");
      if (text.trimEnd().endsWith("]}")) return text;
    }
  }

  /** The most that it has had in memory, in bytes. */
  get peakBytes(): number {
    const status = readFileSync(`/proc/${this.#process.pid}/status`, "utf8");
    return Number(/VmHWM:\s+(?<kib>\d+) kB/.exec(status)?.groups?.["kib"]) * 1024;
  }
}

test("E4: when an answer has begun, the line has the API key of its request no longer", async (t) => {
  const begin = Promise.withResolvers<void>();
  const provider = await ProviderServer.start(t, async (response) => {
    await begin.promise;
    response.writeHead(200).write("the answer has begun");
  });
  const line = await SeenLine.start(t, new LineRig(t));
  const call = line.call(t, "a", provider.origin);
  await until(() => provider.asked.length === 1);
  assert.ok((await line.heap()).includes(API_KEY), "it is looked for where it is");
  begin.resolve();
  await once(call, "data");
  assert.ok(!(await line.heap()).includes(API_KEY));
  assert.equal(provider.asked[0]?.headers["authorization"], `Bearer ${API_KEY}`);
});

test("F2: a line keeps no more than its bounds, however much is sent to readers that take nothing", async (t) => {
  const [calls, each, bound] = [4, 48 * MIB, 16 * MIB];
  let sent = 0;
  const provider = await ProviderServer.start(t, async (response) => {
    response.writeHead(200);
    for (let at = 0; at < each / MIB; at++) {
      const isTaken = response.write(Buffer.alloc(MIB, at));
      sent += MIB;
      if (!isTaken) await once(response, "drain");
    }
    response.end();
  });
  const line = await SeenLine.start(t, new LineRig(t), { callBytesMax: bound, bytesMax: bound });
  const before = line.peakBytes;
  for (let call = 0; call < calls; call++) line.call(t, `call ${call}`, provider.origin).pause();
  await until(() => sent > bound);
  for (let last = -1; last !== sent; await sleep(500)) last = sent;
  assert.ok(sent < (calls * each) / 2, `${sent} bytes were taken of the providers`);
  const grown = line.peakBytes - before;
  assert.ok(grown < 5 * bound, `${grown} bytes of memory for a bound of ${bound}`);
});

test("a machine that slept for an hour has used nothing of the grace period", async (t) => {
  const provider = await ProviderServer.start(t, (response) => void response.writeHead(200).write("begun"));
  const rig = new LineRig(t);
  const socketPath = join(rig.directory, "here.sock");
  const settings = { ...LINE_DEFAULTS, graceMs: 60_000, socketPath, secret: SECRET };
  const line = new Line(settings, () => undefined);
  await line.listen();
  t.after(() => line.close());
  const headers = { "content-type": "application/json" };
  const stream = { principal: "alice", idempotencyKey: "a" };
  const call = { method: "POST", url: provider.origin, headers, label: "0 target", stream };
  const reader = asking(socketPath, { secret: SECRET, ask: "attach", name: "a", epoch: 1, call });
  await once(reader, "data");
  reader.destroy();
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() + 3_600_000 });
  const nowMs = performance.now() + 3_600_000;
  t.mock.method(performance, "now", () => nowMs);
  // Longer than the line takes to look.
  await sleep(2_500);
  const held = await askLine(socketPath, { secret: SECRET, ask: "find", epoch: 1, names: ["a"] });
  assert.deepEqual(held, { held: ["0 target"] });
});

test("on Windows there is no line", (t) => {
  const rig = new LineRig(t);
  const options = { dataDir: rig.directory, onNotice: () => assert.fail("nothing went wrong") };
  assert.equal(openLine({ ...options, machine: { env: {}, platform: "win32" } }), undefined);
});
