/**
 * G6 where `holdfast serve` is the first process of its container: a PID namespace of its own, which ends with that process.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { MODEL } from "../agent/models/providers/formats.ts";
import { FLAVOURS, scriptedProvider, varyingText } from "../agent/models/providers/scripted.ts";
import { type Act, begin, frameText } from "../agent/models/providers/server.ts";
import { bodyOf, user } from "../gateway/openai-user.ts";
import { Served } from "./served-line.ts";

const NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const isAllowed = spawnSync(NAMESPACE[0] ?? "", [...NAMESPACE.slice(1), "true"]).status === 0;
const WORDS_FIRST = 3;

/** The process that a process has started first; undefined while there is none. */
function childOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return children === "" ? undefined : Number.parseInt(children, 10);
}

test(
  "G6: as the first process of a container: its server is killed, and the answer continues; a stop ends everything",
  { skip: isAllowed ? false : "no PID namespaces here" },
  async (t) => {
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
    const served = new Served(t, provider.config, NAMESPACE);
    await served.start();
    const body = bodyOf([user("Which way is the wind?")], { model: `local/${MODEL}`, stream: true });
    const headers = { "idempotency-key": "first-process" };
    const cut = served.ask(body, undefined, headers);
    await cut.until("number");
    const first = childOf(served.pid) ?? 0;
    const killed = childOf(first) ?? 0;
    process.kill(killed, "SIGKILL");
    const shown = await cut.reply();
    assert.ok(!shown.isWhole);
    while (!(await isReady(served.url))) await sleep(50);
    release.resolve();
    const again = await served.ask(body, undefined, headers).reply();
    assert.equal(again.text, varyingText(1));
    assert.ok(again.isWhole && again.text.startsWith(shown.text));
    assert.equal(calls, 1);
    process.kill(first, "SIGTERM");
    assert.equal(await served.exitCode(), 0);
    assert.equal(await served.linePid(), undefined);
  },
);

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/ready`)).ok;
  } catch {
    return false;
  }
}
