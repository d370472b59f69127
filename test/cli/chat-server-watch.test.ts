/**
 * What a chat does about its server: every case of the decision, without a process.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { followText, isSameAddress, nextFor, startText, waitText } from "../../src/cli/chat/server-watch.ts";
import { claimOn } from "../../src/cli/data-dir-claim.ts";
import type { ServerSeen } from "../../src/cli/control-client.ts";

const URL_BEFORE = "http://127.0.0.1:4600";
const DIED = { kind: "died", url: URL_BEFORE, pid: 7 } as const;
const SILENT = { kind: "silent", url: URL_BEFORE, pid: 7 } as const;
const NONE = { kind: "none" } as const;
const PERSONS = { url: URL_BEFORE, pid: 7, mayStart: false } as const;
const BACKGROUND = { ...PERSONS, mayStart: true } as const;
const NAMED = { ...PERSONS, pid: undefined } as const;

function running(pid: number, url = URL_BEFORE, endsWhenIdle = false): ServerSeen {
  return { kind: "running", about: { url, pid, endsWhenIdle, models: [], troubles: [] } };
}

test("a chat starts again what a chat has started, and waits for a person's server", () => {
  for (const seen of [DIED, NONE]) {
    assert.equal(nextFor(BACKGROUND, seen).kind, "start");
    assert.equal(nextFor(PERSONS, seen).kind, "wait");
  }
  // A process that hangs has the lock: a second one could not start.
  assert.equal(nextFor(BACKGROUND, SILENT).kind, "wait");
});

test("a chat follows another process, at the same address and at another", () => {
  assert.equal(nextFor(PERSONS, running(7)).kind, "stay");
  assert.equal(nextFor(PERSONS, running(8)).kind, "follow");
  assert.equal(nextFor(PERSONS, running(8, "http://127.0.0.1:4700")).kind, "follow");
});

test("of an address that was named the data directory says something only when its server is there", () => {
  for (const seen of [DIED, SILENT, NONE, running(8, "http://127.0.0.1:4700")]) {
    assert.equal(nextFor(NAMED, seen).kind, "stay");
  }
  assert.equal(nextFor(NAMED, running(8, "http://localhost:4600")).kind, "follow");
});

test("names of this machine are one address; ports, schemes and other hosts are not", () => {
  assert.ok(isSameAddress("http://localhost:4600/", "http://0.0.0.0:4600"));
  assert.ok(isSameAddress("https://agents.example.com", "https://agents.example.com:443/x"));
  assert.ok(!isSameAddress(URL_BEFORE, "http://127.0.0.1:4601"));
  assert.ok(!isSameAddress(URL_BEFORE, "https://127.0.0.1:4600"));
  assert.ok(!isSameAddress(URL_BEFORE, "http://10.0.0.5:4600"));
  assert.ok(!isSameAddress(URL_BEFORE, "no address"));
});

test("the words name the process, what became of it, and what to do", () => {
  const server = "the server at http://127.0.0.1:4600 (process 7)";
  assert.equal(
    waitText(PERSONS, DIED),
    `${server} has died: start it again, and this chat follows it; nothing is lost`,
  );
  assert.match(waitText(PERSONS, NONE), /has stopped: start it again/);
  assert.match(waitText(PERSONS, SILENT), /does not answer: this chat waits for it/);
  assert.equal(startText(DIED), `${server} has died; starting one in the background`);
  assert.equal(startText(NONE), "no server runs; starting one in the background");
  const about = { url: "http://127.0.0.1:4700", pid: 8, endsWhenIdle: false, models: [], troubles: [] };
  assert.match(followText(PERSONS, about), /is at http:\/\/127\.0\.0\.1:4700 now \(process 8\)/);
  assert.match(followText(PERSONS, { ...about, url: URL_BEFORE }), /is there again \(process 8\)/);
});

test("a server that a person starts takes the place of a chat's, and of no other", () => {
  assert.equal(claimOn("/data", NONE).kind, "take");
  assert.equal(claimOn("/data", DIED).kind, "take");
  assert.equal(claimOn("/data", running(8, URL_BEFORE, true)).kind, "ask_for_room");
  const refused = claimOn("/data", running(8));
  assert.ok(refused.kind === "refuse");
  assert.match(
    refused.error.message,
    /\/data is in use by the server at http:\/\/127\.0\.0\.1:4600 \(process 8\); stop it/,
  );
});
