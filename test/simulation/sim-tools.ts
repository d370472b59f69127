/**
 * The tools of a simulated device: they take time, run outside the client's process, and leave their
 * effects in the outside world, where a crash of the client neither stops nor undoes them.
 */
import { fromBinary } from "../../src/protocol/message.ts";
import { createHash } from "node:crypto";
import type { ExecRequest } from "../../src/protocol/exec-codec.ts";
import type { Approval, ToolRun, Tools } from "../../src/client/index.ts";
import { ExecServerMessageSchema } from "../../src/protocol/messages.ts";
import { type ResultMessage, writeExecResult } from "../../src/tools/results.ts";
import { FORGED } from "./agent-messages.ts";
import type { Ledger } from "./ledger.ts";
import type { Random, SimProcess, World } from "./world/index.ts";

/** Between the decision to run and the run lies a sync of the journal, which may be slow; clocks may have jumped. */
const SLACK_MS = 15_000;

/** What runs on a device, whichever life of the client started it. */
export class ToolFloor {
  readonly #world: World;
  readonly #ledger: Ledger;
  readonly #random: Random;
  /** How to stop each run that has not taken effect yet. */
  readonly #running = new Map<string, () => void>();
  #echoes = 0;
  /** In the world's time. */
  readonly #approvedUntilMs = new Map<string, number>();

  constructor(world: World, ledger: Ledger, name: string) {
    this.#world = world;
    this.#ledger = ledger;
    this.#random = world.random.fork(`tools ${name}`);
  }

  /** The tools as one life of the client sees them, for one stream. */
  toolsOf(process: SimProcess, isTakenBack: (idempotencyKey: string, execId: string) => boolean): Tools {
    return {
      policy: (exec) => ({ repeatable: exec.tool === "read", needsApproval: exec.tool === "write" }),
      approve: (exec) => this.#approve(process, exec),
      run: (exec, run) => {
        // Its application has read, in this life or before a snapshot, that nobody wants it any more.
        if (isTakenBack(run.idempotencyKey, exec.execId)) {
          this.#world.fail(new Error(`C4: exec ${exec.execId} was begun after it had been taken back`));
        }
        return this.#run(process, exec, run);
      },
      stopLeftover: (exec) => {
        if (this.#running.has(workOf(exec))) this.#world.hit("sometimes.leftover_stopped");
        this.#stop(workOf(exec));
      },
    };
  }

  #approve(process: SimProcess, exec: ExecRequest): Promise<Approval> {
    const delayMs = this.#random.chance(0.3) ? this.#random.int(20_000) : this.#random.int(300);
    const allowed = this.#random.chance(0.8);
    // Some run out before the journal has them, some have run out when they come.
    const lifeMs = this.#random.chance(0.3) ? this.#random.pick([50, -60_000]) : 60_000;
    this.#world.trace(process.name, "asks the user about", exec.execId);
    return new Promise((resolve) => {
      process.env.after(delayMs, () => {
        if (allowed) this.#approvedUntilMs.set(workOf(exec), this.#world.nowMs + lifeMs);
        resolve({ allowed, untilMs: process.env.now() + lifeMs });
      });
    });
  }

  #run(process: SimProcess, exec: ExecRequest, run: ToolRun): Promise<Uint8Array> {
    const { execId } = exec;
    const { idempotencyKey } = run;
    const work = workOf(exec);
    const isLong = this.#random.chance(0.3);
    const beforeMs = this.#random.int(isLong ? 30_000 : 200);
    const afterMs = this.#random.int(isLong ? 10_000 : 200);
    // Processes may take their time to go.
    const stopMs = this.#random.chance(0.5) ? 1 : this.#random.int(5_000);
    this.#world.trace(process.name, "runs", exec.tool, execId);
    this.#checkApproval(exec);
    // Of a degraded stream no event has a number: when the first request is lost on its way, the client hears of the other one first (D5).
    if (Buffer.from(exec.args).includes(FORGED) && !this.#ledger.isEcho(idempotencyKey)) {
      this.#world.fail(new Error(`C5: exec ${execId} ran with other arguments than it was first asked with`));
    }
    this.#ledger.ran(process.name, idempotencyKey);
    const pieces = this.#random.chance(0.3) ? this.#random.int(4) : 0;
    for (let index = 0; index < pieces; index++) {
      const piece = pieceOf(exec, index);
      if (piece !== undefined) void run.say(writeExecResult(exec, piece));
    }
    return new Promise((resolve, reject) => {
      const cancel = this.#world.schedule(beforeMs, () => {
        this.#running.delete(work);
        // A violation inside a timer of the outside world must end the run, not vanish in a promise.
        // A stream that ran without its store has had a turn that the log does not know, with the same exec ids (D5).
        const name = this.#ledger.isEcho(idempotencyKey)
          ? `${execId} on ${process.name} ${this.#echoes++}`
          : execId;
        this.#ledger.effect(idempotencyKey, name, exec.tool === "read");
        process.env.after(afterMs, () => resolve(writeExecResult(exec, successOf(exec))));
      });
      this.#running.set(work, cancel);
      run.signal.addEventListener("abort", () => {
        this.#stop(work);
        process.env.after(stopMs, () => reject(new Error("stopped")));
      });
    });
  }

  /** C7: what needs an approval runs under one that has not run out (but for slow disks in between). */
  #checkApproval(exec: ExecRequest): void {
    const { tool, execId } = exec;
    if (tool !== "write") return;
    const untilMs = this.#approvedUntilMs.get(workOf(exec)) ?? Number.NEGATIVE_INFINITY;
    // An approval ends by the device's own clock, and one that was valid at the decision is used after a pause.
    const { counters } = this.#world;
    const isJudged = counters.of("process.clock_jump") === 0 && counters.of("process.pause") === 0;
    if (isJudged && this.#world.nowMs - untilMs > SLACK_MS) {
      this.#world.fail(new Error(`C7: exec ${execId} ran without a valid approval`));
    }
  }

  #stop(work: string): void {
    this.#running.get(work)?.();
    this.#running.delete(work);
  }
}

/** What an exec works on has a name that nothing else in the world has: exec ids are a stream's own. */
function workOf({ args, execId }: ExecRequest): string {
  const { message } = fromBinary(ExecServerMessageSchema, args);
  switch (message.case) {
    case "shellStreamArgs":
      return message.value.command;
    case "readArgs":
    case "writeArgs":
      return `${message.case} ${message.value.path}`;
    case "subagentArgs":
      return Buffer.from(message.value.prompt?.content.value ?? []).toString();
    default:
      return execId;
  }
}

function pieceOf({ kind }: ExecRequest, index: number): ResultMessage | undefined {
  if (kind === "subagent") {
    const value = { result: { case: "progress", value: { text: String(index) } } } as const;
    return { case: "subagentResult", value };
  }
  if (kind !== "shell_stream") return undefined;
  const output = { output: { case: "stdout", value: Buffer.from(String(index)) } } as const;
  return { case: "shellStreamResult", value: { result: { case: "output", value: output } } };
}

/** Every file has the same text, which an edit can change. */
const TEXT = Buffer.from("the old text");

export function successOf({ kind }: ExecRequest): ResultMessage {
  const content = { content: { case: "inline", value: TEXT } } as const;
  switch (kind) {
    case "read": {
      const sha256 = createHash("sha256").update(TEXT).digest();
      const file = { content, totalLines: 1, sizeBytes: TEXT.length, sha256, mediaType: "text/plain" };
      return { case: "readResult", value: { result: { case: "success", value: file } } };
    }
    case "write":
      return { case: "writeResult", value: { result: { case: "success", value: { bytesWritten: 3 } } } };
    case "subagent":
      return { case: "subagentResult", value: { result: { case: "success", value: { text: content } } } };
    default:
      return { case: "shellStreamResult", value: { result: { case: "success", value: { exitCode: 0 } } } };
  }
}
