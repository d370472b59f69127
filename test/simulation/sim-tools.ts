/**
 * The tools of a simulated device: they take time, run outside the client's process, and leave their
 * effects in the outside world, where a crash of the client neither stops nor undoes them.
 */
import type { ExecRequest } from "../../src/protocol/exec-codec.ts";
import type { Approval, ToolRun, Tools } from "../../src/client/index.ts";
import { encodePartial, encodeSuccess, FORGED, type ToolName } from "./agent-messages.ts";
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
  /** In the world's time. */
  readonly #approvedUntilMs = new Map<string, number>();

  constructor(world: World, ledger: Ledger, name: string) {
    this.#world = world;
    this.#ledger = ledger;
    this.#random = world.random.fork(`tools ${name}`);
  }

  /** The tools as one life of the client sees them, for one stream. */
  toolsOf(
    process: SimProcess,
    idempotencyKeyOf: (exec: ExecRequest) => string,
    isTakenBack: (execId: string) => boolean,
  ): Tools {
    return {
      policy: (exec) => ({ repeatable: exec.tool === "read", needsApproval: exec.tool === "write" }),
      approve: (exec) => this.#approve(process, exec),
      run: (exec, run) => {
        // Its application has read, in this life or before a snapshot, that nobody wants it any more.
        if (isTakenBack(exec.execId)) {
          this.#world.fail(new Error(`C4: exec ${exec.execId} was begun after it had been taken back`));
        }
        return this.#run(process, idempotencyKeyOf(exec), exec, run);
      },
      stopLeftover: (exec) => {
        if (this.#running.has(exec.execId)) this.#world.hit("sometimes.leftover_stopped");
        this.#stop(exec.execId);
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
        if (allowed) this.#approvedUntilMs.set(exec.execId, this.#world.nowMs + lifeMs);
        resolve({ allowed, untilMs: process.env.now() + lifeMs });
      });
    });
  }

  #run(process: SimProcess, idempotencyKey: string, exec: ExecRequest, run: ToolRun): Promise<Uint8Array> {
    const { execId } = exec;
    if (run.idempotencyKey !== idempotencyKey)
      this.#world.fail(new Error("a run was told of another stream"));
    const isLong = this.#random.chance(0.3);
    const beforeMs = this.#random.int(isLong ? 30_000 : 200);
    const afterMs = this.#random.int(isLong ? 10_000 : 200);
    // Processes may take their time to go.
    const stopMs = this.#random.chance(0.5) ? 1 : this.#random.int(5_000);
    this.#world.trace(process.name, "runs", exec.tool, execId);
    this.#checkApproval(exec);
    if (Buffer.from(exec.args).includes(FORGED)) {
      this.#world.fail(new Error(`C5: exec ${execId} ran with other arguments than it was first asked with`));
    }
    this.#ledger.ran(process.name, idempotencyKey);
    const partials = this.#random.chance(0.3) ? this.#random.int(4) : 0;
    for (let index = 0; index < partials; index++) void run.say(encodePartial(execId, index));
    return new Promise((resolve, reject) => {
      const cancel = this.#world.schedule(beforeMs, () => {
        this.#running.delete(execId);
        // A violation inside a timer of the outside world must end the run, not vanish in a promise.
        this.#ledger.effect(idempotencyKey, execId, exec.tool === "read");
        process.env.after(afterMs, () => resolve(encodeSuccess(execId, toolName(exec.tool))));
      });
      this.#running.set(execId, cancel);
      run.signal.addEventListener("abort", () => {
        this.#stop(execId);
        process.env.after(stopMs, () => reject(new Error("stopped")));
      });
    });
  }

  /** C7: what needs an approval runs under one that has not run out (but for slow disks in between). */
  #checkApproval({ tool, execId }: ExecRequest): void {
    if (tool !== "write") return;
    const untilMs = this.#approvedUntilMs.get(execId) ?? Number.NEGATIVE_INFINITY;
    // An approval ends by the device's own clock, and one that was valid at the decision is used after a pause.
    const { counters } = this.#world;
    const isJudged = counters.of("process.clock_jump") === 0 && counters.of("process.pause") === 0;
    if (isJudged && this.#world.nowMs - untilMs > SLACK_MS) {
      this.#world.fail(new Error(`C7: exec ${execId} ran without a valid approval`));
    }
  }

  #stop(execId: string): void {
    this.#running.get(execId)?.();
    this.#running.delete(execId);
  }
}

function toolName(tool: string): ToolName {
  return tool === "read" || tool === "write" ? tool : "shell";
}
