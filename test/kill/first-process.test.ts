/**
 * G6 where nothing outlives `holdfast serve`: it is the first process of its container (a PID namespace of its own, which ends with that process), or the main
 * process of a systemd service (which has its number in its environment, and whose stop signals every process of it).
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { MODEL } from "../agent/models/providers/formats.ts";
import { FLAVOURS, scriptedProvider, varyingText } from "../agent/models/providers/scripted.ts";
import { type Act, begin, frameText } from "../agent/models/providers/server.ts";
import { bodyOf, type Exchange, user } from "../gateway/openai-user.ts";
import { Served } from "./served-line.ts";

const NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const isAllowed = spawnSync(NAMESPACE[0] ?? "", [...NAMESPACE.slice(1), "true"]).status === 0;
const WORDS_FIRST = 3;

/** The process that a process has started first; undefined while there is none. */
function childOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children === "" ? undefined : Number.parseInt(children, 10);
}

/** As systemd starts a service. */
const SERVICE = ["sh", "-c", 'SYSTEMD_EXEC_PID=$$ INVOCATION_ID=b0a1 exec "$0" "$@"'];

interface Stage {
  readonly served: Served;
  readonly calls: () => number;
  readonly release: () => void;
  readonly ask: () => Exchange;
}

/** A provider that waits behind its first words until it is released. */
async function stage(t: TestContext, under: readonly string[]): Promise<Stage> {
  const release = Promise.withResolvers<void>();
  let calls = 0;
  const act: Act = async (response) => {
    const call = ++calls;
    const frames = FLAVOURS.chat.format
      .frames({ text: varyingText(call) })
      .map(({ data }) => frameText(data));
    begin(response);
    response.write(frames.slice(0, WORDS_FIRST + 1).join(""));
    await release.promise;
    response.end(frames.slice(WORDS_FIRST + 1).join(""));
  };
  const provider = await scriptedProvider(t, FLAVOURS.chat, { script: () => act });
  const served = new Served(t, provider.config, under);
  await served.start();
  const body = bodyOf([user("Which way is the wind?")], { model: `local/${MODEL}`, stream: true });
  const ask = (): Exchange => served.ask(body, undefined, { "idempotency-key": "first-process" });
  return { served, calls: () => calls, release: release.resolve, ask };
}

/** Kills the server below its parent, and has the answer from the next one. */
async function isContinued({ served, calls, release, ask }: Stage, server: number): Promise<void> {
  const cut = ask();
  await cut.until("number");
  process.kill(server, "SIGKILL");
  const shown = await cut.reply();
  assert.ok(!shown.isWhole);
  while (!(await isReady(served.url))) await sleep(50);
  release();
  const again = await ask().reply();
  assert.equal(again.text, varyingText(1));
  assert.ok(again.isWhole && again.text.startsWith(shown.text));
  assert.equal(calls(), 1);
}

test(
  "G6: as the first process of a container: its server is killed, and the answer continues; a stop ends everything",
  { skip: isAllowed ? false : "no PID namespaces here" },
  async (t) => {
    const at = await stage(t, NAMESPACE);
    const first = childOf(at.served.pid) ?? 0;
    await isContinued(at, childOf(first) ?? 0);
    process.kill(first, "SIGTERM");
    assert.equal(await at.served.exitCode(), 0);
    assert.equal(await at.served.linePid(), undefined);
  },
);

test("G6: as the main process of a systemd service: its server is killed, and the answer continues; without its parent the server ends", async (t) => {
  const at = await stage(t, SERVICE);
  await isContinued(at, childOf(at.served.pid) ?? 0);
  // A server whose parent has gone ends by itself.
  const server = childOf(at.served.pid) ?? 0;
  await at.served.signal("SIGKILL");
  while (isAlive(server)) await sleep(50);
});

test("a stop that systemd sends to every process of its service is one stop: the server ends in order, and not at once", async (t) => {
  const { served, ask } = await stage(t, SERVICE);
  const under = ask();
  await under.until("number");
  const server = childOf(served.pid) ?? 0;
  process.kill(server, "SIGTERM");
  process.kill(served.pid, "SIGTERM");
  await under.reply();
  // 143 when it was stopped twice.
  assert.equal(await served.exitCode(), 0);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/ready`)).ok;
  } catch {
    return false;
  }
}
