/** Processes that die, disks that fill up: what was acknowledged is there, and nothing is acknowledged after a failure. */
import assert from "node:assert/strict";
import type { ChildProcessByStdio } from "node:child_process";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { test } from "node:test";
import type { SqliteStore } from "../../src/store/index.ts";
import { openSqliteStore } from "../../src/store/index.ts";
import { body, readAll, streamName } from "../conformance/stream-fixtures.ts";
import { newFolder } from "./sqlite-fixtures.ts";

const LOAD = join(import.meta.dirname, "sqlite-load.ts");

/** What the load was told, line by line. */
interface Acked {
  readonly heads: ReadonlyMap<string, number>;
  readonly keys: number;
  readonly failure: string | undefined;
  readonly afterFailure: number;
}

function ackedIn(output: string): Acked {
  const heads = new Map<string, number>();
  let keys = 0;
  let failure: string | undefined;
  let afterFailure = 0;
  // The last line may be cut off by the kill.
  for (const line of output.split("\n").slice(0, -1)) {
    const [kind, first = "", second = ""] = line.split(" ");
    if (failure !== undefined) afterFailure += 1;
    else if (kind === "s") heads.set(first, Number(second));
    else if (kind === "t") keys = Number(first) + 1;
    else failure = line;
  }
  return { heads, keys, failure, afterFailure };
}

function start(command: string, args: readonly string[]): ChildProcessByStdio<null, Readable, null> {
  return spawn(command, [...args], { stdio: ["ignore", "pipe", "inherit"] });
}

/** Everything that it said until it was gone; `onLines` is told how much there is. */
async function outputOf(
  child: ChildProcessByStdio<null, Readable, null>,
  onLines: (count: number) => void = () => undefined,
): Promise<string> {
  let output = "";
  let lines = 0;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    lines += text.split("\n").length - 1;
    onLines(lines);
  });
  await once(child, "close");
  return output;
}

/** Every acknowledged event and row is there, whole and in order; so is what came in between. */
async function assertHolds({ streams, tables }: SqliteStore, acked: Acked): Promise<void> {
  for (const [number, head] of acked.heads) {
    const name = streamName(`s${number}`);
    const found = await streams.load(name);
    assert.ok(found.kind === "live" && found.state.eventHead >= head);
    const batches = await readAll(1, (from) => streams.readEvents(name, from, 100_000));
    assert.equal((batches.at(-1)?.first ?? 0) + 2, found.state.eventHead);
    for (const { first, count, sealed } of batches) {
      assert.deepEqual(Buffer.from(sealed), Buffer.from(body(`event ${"x".repeat(2_000)}`, first, count)));
    }
    const chunks = await readAll(0, (from) => streams.readChunks(name, from, 100_000));
    assert.equal(chunks.length, found.state.nextSeqno);
  }
  for (let key = 0; key < acked.keys; key++) {
    const row = await tables.get({ table: "t", key: String(key) });
    assert.deepEqual(row?.value, new Uint8Array(1_000).fill(key % 256));
  }
}

test("A3: a process killed in the middle of its work has kept every promise, several times over", async () => {
  const folder = newFolder();
  for (const linesMax of [1, 400, 1_500]) {
    const child = start(process.execPath, [LOAD, folder]);
    const output = await outputOf(child, (lines) => {
      if (lines >= linesMax) child.kill("SIGKILL");
    });
    const acked = ackedIn(output);
    assert.equal(acked.failure, undefined);
    const store = await openSqliteStore(folder, { now: Date.now });
    await assertHolds(store, acked);
    await store.close();
  }
});

test("F5: a file that may not grow stops the acks, and what was acknowledged is there", async (t) => {
  if (process.platform === "win32") return t.diagnostic("there is no such limit on Windows");
  const folder = newFolder();
  // In units of 512 or 1024 bytes, by the shell; either way the log meets it soon. Ignored, the signal becomes an error.
  const limited = `trap '' XFSZ; ulimit -f 12000; exec "$0" "$1" "$2"`;
  const acked = ackedIn(await outputOf(start("sh", ["-c", limited, process.execPath, LOAD, folder])));
  await assertStopped(folder, acked, /could not be written/);
});

test("F5: a full disk stops the acks and says so; with space again everything is there", async (t) => {
  const mount = mountSmall(t);
  if (mount === undefined) return t.diagnostic("only root can mount a small disk");
  const acked = ackedIn(await outputOf(start(process.execPath, [LOAD, mount])));
  const roomier = newFolder();
  cpSync(mount, roomier, { recursive: true });
  await assertStopped(roomier, acked, /the disk is full; give it space/);
});

test("F5: after a failed sync nothing is acknowledged, and what was is on the disk itself", async (t) => {
  const disk = mountFailing(t);
  if (disk === undefined)
    return t.diagnostic("only root can make a disk that fails, with loop devices and ext4");
  const acked = ackedIn(await outputOf(start(process.execPath, [LOAD, disk.folder])));
  // SQLITE_IOERR_FSYNC, or the write that came just before it.
  assert.match(acked.failure ?? "", /SQLite code (?:1034|778)/);
  // Mounted anew: what only the page cache knew is gone.
  disk.repair();
  const copy = newFolder();
  cpSync(disk.folder, copy, { recursive: true });
  await assertStopped(copy, acked, /could not be written/);
});

async function assertStopped(folder: string, acked: Acked, message: RegExp): Promise<void> {
  assert.match(acked.failure ?? "", message);
  assert.equal(acked.afterFailure, 0);
  assert.ok(acked.heads.size > 0);
  const store = await openSqliteStore(folder, { now: Date.now });
  await assertHolds(store, acked);
  await store.tables.put({ table: "t", key: "again" }, Uint8Array.of(1));
  await store.close();
}

interface FailingDisk {
  readonly folder: string;
  repair(): void;
}

/** An image larger than what lies under it: writes reach the page cache, and the sync finds no room for them. */
function mountFailing(t: TestContext): FailingDisk | undefined {
  const under = mountSmall(t);
  if (under === undefined) return undefined;
  const image = join(under, "image");
  const folder = join(newFolder(), "failing");
  mkdirSync(folder);
  writeFileSync(image, "");
  truncateSync(image, 256 * 2 ** 20);
  const run = (command: string, ...args: readonly string[]): boolean =>
    spawnSync(command, [...args]).status === 0;
  if (!run("mkfs.ext4", "-q", "-E", "nodiscard", image)) return undefined;
  if (!run("mount", "-o", "loop", image, folder)) return undefined;
  t.after(() => run("umount", folder));
  return {
    folder,
    repair() {
      assert.ok(run("umount", folder));
      assert.ok(run("mount", "-o", "remount,size=300m", under));
      assert.ok(run("mount", "-o", "loop", image, folder));
    },
  };
}

function mountSmall(t: TestContext): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return undefined;
  const folder = join(newFolder(), "small");
  mkdirSync(folder);
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=24m", "tmpfs", folder]);
  if (status !== 0) return undefined;
  // Lazily: an image in it may still be mounted.
  t.after(() => spawnSync("umount", ["-l", folder]));
  return folder;
}
