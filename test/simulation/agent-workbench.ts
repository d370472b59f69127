/**
 * The tools of a simulated user: a file, and a list of the commands that were run.
 *
 * Work goes on outside the client's process: a crash of the client neither stops nor undoes it, only whoever
 * starts the client again can stop what it left behind.
 *
 * Invariant: no exec that is not repeatable takes effect twice (C1).
 */
import { fromBinary } from "../../src/protocol/message.ts";
import { createHash } from "node:crypto";
import type { ToolRun, Tools } from "../../src/client/index.ts";
import type { ExecRequest } from "../../src/protocol/exec-codec.ts";
import { ExecKind, type ExecServerMessage, ExecServerMessageSchema } from "../../src/protocol/messages.ts";
import { type ResultMessage, writeExecResult } from "../../src/tools/results.ts";
import { NOTES } from "./agent-model.ts";
import { fail } from "./log-checks.ts";
import type { SimProcess, World } from "./world/index.ts";

export const KINDS: readonly ExecKind[] = [ExecKind.SHELL_STREAM, ExecKind.READ, ExecKind.WRITE];

/** Long against a disk's sync and short against a model's step, so that crashes fall into each. */
const BEFORE_MS = 40;
const AFTER_MS = 15;
const APPROVAL_MS = 25;
const APPROVAL_LIFE_MS = 600_000;

export class Workbench {
  readonly files = new Map<string, string>([[NOTES, "the old text"]]);
  /** The commands in the order in which they took effect. */
  readonly commands: string[] = [];
  /** How often each exec took effect. */
  readonly effects = new Map<string, number>();
  readonly #world: World;
  readonly #running = new Map<string, () => void>();

  constructor(world: World) {
    this.#world = world;
  }

  /** The tools as one life of the client has them. */
  toolsOf(process: SimProcess): Tools {
    return {
      policy: ({ kind }) => ({ repeatable: kind === "read", needsApproval: kind === "write" }),
      approve: () =>
        new Promise((resolve) => {
          const untilMs = process.env.now() + APPROVAL_LIFE_MS;
          process.env.after(APPROVAL_MS, () => resolve({ allowed: true, untilMs }));
        }),
      run: (exec, run) => this.#run(process, exec, run),
      stopLeftover: ({ execId }) => this.#stop(execId),
    };
  }

  #run(process: SimProcess, exec: ExecRequest, run: ToolRun): Promise<Uint8Array> {
    const { execId } = exec;
    const asked = fromBinary(ExecServerMessageSchema, exec.args);
    this.#world.trace(process.name, "runs", exec.kind, execId);
    if (asked.message.case === "shellStreamArgs") {
      void run.say(writeExecResult(exec, outputOf(`${asked.message.value.command} `)));
    }
    return new Promise((resolve) => {
      const take = (): void => {
        this.#running.delete(execId);
        const result = this.#effect(run.idempotencyKey, exec, asked);
        process.env.after(AFTER_MS, () => resolve(writeExecResult(exec, result)));
      };
      this.#running.set(execId, this.#world.schedule(BEFORE_MS, take));
    });
  }

  #stop(execId: string): void {
    this.#running.get(execId)?.();
    this.#running.delete(execId);
  }

  #effect(
    idempotencyKey: string,
    { execId, kind }: ExecRequest,
    { message }: ExecServerMessage,
  ): ResultMessage {
    const id = `${idempotencyKey} ${execId}`;
    const count = (this.effects.get(id) ?? 0) + 1;
    this.effects.set(id, count);
    this.#world.trace("outside", "effect of", execId, count);
    if (count > 1 && kind !== "read") fail("C1", `exec ${execId} took effect ${count} times`);
    switch (message.case) {
      case "shellStreamArgs":
        this.commands.push(message.value.command);
        return { case: "shellStreamResult", value: { result: { case: "success", value: { exitCode: 0 } } } };
      case "readArgs":
        return readResult(this.files.get(message.value.path) ?? "");
      case "writeArgs": {
        const { path, content, expectedSha256 } = message.value;
        const before = createHash("sha256")
          .update(this.files.get(path) ?? "")
          .digest();
        if (expectedSha256 !== undefined && !before.equals(expectedSha256)) {
          return { case: "writeResult", value: { result: { case: "error", value: { message: "changed" } } } };
        }
        const bytes = content?.content.case === "inline" ? content.content.value : new Uint8Array();
        this.files.set(path, Buffer.from(bytes).toString());
        const value = { bytesWritten: bytes.length };
        return { case: "writeResult", value: { result: { case: "success", value } } };
      }
      default:
        return fail("C5", `exec ${execId} asks for something that the model did not`);
    }
  }
}

function outputOf(text: string): ResultMessage {
  const value = { output: { case: "stdout", value: Buffer.from(text) } } as const;
  return { case: "shellStreamResult", value: { result: { case: "output", value } } };
}

function readResult(text: string): ResultMessage {
  const bytes = Buffer.from(text);
  const value = {
    content: { content: { case: "inline", value: bytes } },
    totalLines: 1,
    sizeBytes: bytes.length,
    sha256: createHash("sha256").update(bytes).digest(),
    mediaType: "text/plain",
  } as const;
  return { case: "readResult", value: { result: { case: "success", value } } };
}
