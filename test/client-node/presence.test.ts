/**
 * Who is alive among the processes that share a scope: real ones, killed.
 */
import assert from "node:assert/strict";
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { announce } from "../../src/client-node/presence.ts";
import { lockFile } from "../../src/store/sqlite/lock.ts";
import { Child } from "./child.ts";
import { temporaryDirectory } from "./temporary.ts";

/** Without those that SQLite keeps beside a lock that is held. */
const lockFiles = (directory: string): readonly string[] =>
  readdirSync(directory).filter((name) => name.endsWith(".lock"));

test("D1: a process is alive until it is killed, and dead at once afterwards", async (t) => {
  const directory = join(temporaryDirectory(t), "processes");
  const own = announce(directory);
  t.after(() => own.release());
  const child = new Child(t, "presence.ts", [directory]);
  const id = await child.word("present");
  assert.equal(own.isAlive(id), true);
  assert.equal(own.nameOf(id), `process ${child.pid}`);
  assert.equal(lstatSync(join(directory, `${id}.lock`)).mode & 0o777, 0o600);
  await child.kill();
  assert.equal(own.isAlive(id), false);
  assert.deepEqual(lockFiles(directory), [`${own.id}.lock`]);
});

test("D1: a process that leaves in good order is gone, though it goes on running", async (t) => {
  const directory = temporaryDirectory(t);
  const own = announce(directory);
  t.after(() => own.release());
  const child = new Child(t, "presence.ts", [directory]);
  const id = await child.word("present");
  child.tell("leave");
  await child.word("gone");
  assert.equal(own.isAlive(id), false);
});

test("D1: two in one process are two, and looking at one does not end it", async (t) => {
  const directory = temporaryDirectory(t);
  const [first, second] = [announce(directory), announce(directory)];
  t.after(() => second.release());
  for (let looks = 0; looks < 3; looks++) assert.equal(second.isAlive(first.id), true);
  const child = new Child(t, "presence.ts", [directory]);
  await child.word("present");
  assert.equal(second.isAlive(first.id), true);
  first.release();
  assert.equal(second.isAlive(first.id), false);
});

test("what dead processes have left is cleared away at the next start", async (t) => {
  const directory = temporaryDirectory(t);
  const children = [1, 2, 3].map(() => new Child(t, "presence.ts", [directory]));
  await Promise.all(children.map((child) => child.word("present")));
  await Promise.all(children.map((child) => child.kill()));
  const own = announce(directory);
  t.after(() => own.release());
  assert.deepEqual(lockFiles(directory), [`${own.id}.lock`]);
});

test("D1: several may look at a dead process at the same moment, and none takes the other for it", async (t) => {
  const directory = temporaryDirectory(t);
  const own = announce(directory);
  t.after(() => own.release());
  const child = new Child(t, "presence.ts", [directory]);
  const id = await child.word("present");
  await child.kill();
  // As somebody else holds it who is looking right now.
  const looking = lockFile(join(directory, `${id}.lock`), { shared: true });
  assert.equal(own.isAlive(id), false);
  looking.release();
  assert.deepEqual(lockFiles(directory), [`${own.id}.lock`]);
});

test("E6: an id that leads elsewhere names nobody", (t) => {
  const own = announce(temporaryDirectory(t));
  t.after(() => own.release());
  for (const id of ["../../etc/passwd", "", `${"0".repeat(32)}-1/../x`]) assert.equal(own.isAlive(id), false);
});
