/**
 * The program of the README in real processes, killed in its tool and in its text, together with its server, alone, or only the server: started again it has
 * the whole answer, and the tool has taken effect once.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fieldsOf } from "../../src/protocol/fields.ts";
import { keptPort } from "../kept-port.ts";

const PROGRAM = join(import.meta.dirname, "programs/trip.ts");
const API_KEY = "an-api-key-for-this-test";
const COUNTED = Array.from({ length: 30 }, (_, at) => `${at + 1} `).join("");

/** A process, and what it has printed. */
class Program {
  readonly #child: ChildProcess;
  #output = "";
  #look = (): void => undefined;

  constructor(child: ChildProcess) {
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#output += text;
        this.#look();
      });
    child.once("exit", () => this.#look());
  }

  /** Rejects when the process ends before. */
  async until(what: RegExp): Promise<void> {
    for (;;) {
      if (what.test(this.#output)) return;
      const { exitCode, signalCode } = this.#child;
      assert.ok(exitCode === null && signalCode === null, `it ended before ${what}: ${this.#output}`);
      await new Promise<void>((resolve) => {
        this.#look = resolve;
      });
    }
  }

  goOn(): void {
    this.#child.stdin?.write("go");
  }

  async kill(): Promise<void> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return;
    const gone = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await gone;
  }

  /** What it said last. */
  async result(): Promise<ReturnType<typeof fieldsOf>> {
    await this.until(/\n\{"reason".*\}\n/);
    return fieldsOf(JSON.parse(this.#output.match(/\n(?<json>\{"reason".*\})\n/)?.groups?.["json"] ?? ""));
  }
}

interface Stage {
  start(mode: "program" | "server", more?: Readonly<Record<string, string>>): Program;
  readonly url: string;
  effects(): string;
}

async function stageOf(t: TestContext): Promise<Stage> {
  const cwd = mkdtempSync(join(tmpdir(), "holdfast-program-"));
  const port = String(await keptPort());
  const started: Program[] = [];
  t.after(async () => {
    for (const program of started) await program.kill();
    rmSync(cwd, { recursive: true, force: true });
  });
  const env = {
    PATH: process.env["PATH"],
    HOME: cwd,
    HOLDFAST_PORT: port,
    SERVER_API_KEY: API_KEY,
    HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"),
  };
  return {
    url: `http://127.0.0.1:${port}`,
    start: (mode, more = {}) => {
      const child = spawn(process.execPath, [PROGRAM, mode], { cwd, env: { ...env, ...more } });
      const program = new Program(child);
      started.push(program);
      return program;
    },
    effects: () => readFileSync(join(cwd, "effects"), "utf8"),
  };
}

function checkWhole(result: ReturnType<typeof fieldsOf>, effects: string, outcome: "done" | "unknown"): void {
  const { reason, text, shown, turns } = result;
  assert.equal(reason, "completed");
  assert.equal(String(text).split("\n").at(-1), COUNTED, "the answer is whole");
  assert.match(String(text), new RegExp(`outcome is "${outcome}"`));
  assert.equal(String(shown), text, "and shown as it counts");
  assert.equal(turns, 1, "one turn");
  assert.equal(effects, "Oslo\n", "the tool took effect once");
}

test("C2: killed in its tool, with the server in the same process, the program has its answer when it runs again", async (t) => {
  const stage = await stageOf(t);
  const first = stage.start("program", { HOLDS: "tool" });
  await first.until(/\[in the tool\]/);
  await first.kill();
  const second = stage.start("program");
  checkWhole(await second.result(), stage.effects(), "unknown");
});

test("B3: killed in its text, with the server in the same process, the program has its answer when it runs again", async (t) => {
  const stage = await stageOf(t);
  const first = stage.start("program");
  await first.until(/ 7 /);
  await first.kill();
  const second = stage.start("program");
  checkWhole(await second.result(), stage.effects(), "done");
});

test("C2: a server that is killed in the tool and in the text, and starts again, costs the program nothing but time", async (t) => {
  const stage = await stageOf(t);
  const serving = stage.start("server");
  await serving.until(/\[serving\]/);
  const program = stage.start("program", {
    HOLDFAST_URL: stage.url,
    HOLDFAST_API_KEY: API_KEY,
    HOLDS: "tool",
  });
  await program.until(/\[in the tool\]/);
  await serving.kill();
  program.goOn();
  const again = stage.start("server");
  await program.until(/ 7 /);
  await again.kill();
  stage.start("server");
  checkWhole(await program.result(), stage.effects(), "done");
});

test("B3: a program that is killed in its text alone goes on with the turn that its server has meanwhile ended", async (t) => {
  const stage = await stageOf(t);
  const serving = stage.start("server");
  await serving.until(/\[serving\]/);
  const elsewhere = { HOLDFAST_URL: stage.url, HOLDFAST_API_KEY: API_KEY };
  const first = stage.start("program", elsewhere);
  await first.until(/ 7 /);
  await first.kill();
  checkWhole(await stage.start("program", elsewhere).result(), stage.effects(), "done");
});
