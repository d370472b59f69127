/**
 * Carries out what the tool journal orders: asks, runs, cancels, reports.
 *
 * It starts nothing by itself. A run that this process has begun is known here until its result is
 * handed over, so cancelling finds it.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { assert } from "../protocol/assert.ts";
import type { JournalRecord, Recovered } from "../core/journal.ts";
import type { ToolOrder } from "../core/client-state.ts";
import type { ToolNews } from "../core/client-stream.ts";
import type * as tools from "../core/tool-journal.ts";
import {
  type ExecRequest,
  readExec,
  readExecOrder,
  writeExecAborted,
  writeExecError,
  writeExecRejected,
  writeExecThrow,
  writeExecUnknown,
} from "../protocol/exec-codec.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Approval, ToolRun, Tools } from "./tools.ts";

/** Enough to say what went wrong. */
const MESSAGE_CHARS_MAX = 10_000;

export interface RunnerOutputs extends Pick<ToolRun, "idempotencyKey" | "say" | "upload" | "download"> {
  /** The encoded result of an exec, to be said once there is room. */
  answer(execId: string, body: Uint8Array): void;
  input(input: ToolNews): void;
  /** This client has let go of the stream, which goes on without it. */
  isLeft(): boolean;
}

/** Why a run is stopped, or a question closed, although the exec is not called off. */
const LEFT = new HoldfastError("unavailable", "this client has let go of the stream");

interface KnownExec {
  readonly exec: ExecRequest;
  /** The event that carried the request, for the journal. */
  readonly message: Uint8Array;
  readonly argsHash: string;
}

export class ToolRunner {
  readonly #tools: Tools;
  readonly #outputs: RunnerOutputs;
  readonly #execs = new Map<string, KnownExec>();
  readonly #running = new Map<string, AbortController>();
  readonly #asking = new Map<string, AbortController>();
  /** Why somebody said no, until that is reported. */
  readonly #denials = new Map<string, string>();

  constructor(tools: Tools, journal: Recovered, outputs: RunnerOutputs) {
    this.#tools = tools;
    this.#outputs = outputs;
    for (const { request } of journal.execs.values()) {
      // A settled exec is kept without its request: nobody will run it again.
      const exec = request.length === 0 ? undefined : readExec(request);
      if (exec !== undefined) this.#know(exec, request);
    }
  }

  /** Takes the event for what it is, or says why it cannot be read. */
  lookAt(message: Uint8Array, eventId: number): HoldfastError | undefined {
    try {
      const order = readExecOrder(message);
      if (order?.kind === "request") this.#requested(order.exec, eventId, message);
      if (order?.kind === "abort") this.#outputs.input({ kind: "exec_aborted", execId: order.execId });
      return undefined;
    } catch (cause) {
      // It may have been an exec: going on as if it were none would leave it without an answer.
      return HoldfastError.from(cause, "invalid_frame");
    }
  }

  #requested(exec: ExecRequest, eventId: number, message: Uint8Array): void {
    const { repeatable, needsApproval } = isKnownKind(exec) ? this.#tools.policy(exec) : HARMLESS;
    const { execId } = exec;
    const argsHash = bytesToHex(sha256(exec.args));
    if (!this.#execs.has(execId)) this.#execs.set(execId, { exec, message, argsHash });
    this.#outputs.input({ kind: "requested", execId, eventId, argsHash, repeatable, needsApproval });
  }

  recordOf(entry: tools.Entry, phase: "received" | "approved" | "started"): JournalRecord {
    const { execId, eventId, argsHash, repeatable, needsApproval } = entry;
    switch (phase) {
      case "received": {
        const request = this.#known(execId).message;
        return { kind: "exec_received", execId, eventId, argsHash, repeatable, needsApproval, request };
      }
      case "approved":
        return { kind: "exec_approved", execId, argsHash, untilMs: entry.approvedUntilMs };
      case "started":
        return { kind: "exec_started", execId };
    }
  }

  carryOut(effect: ToolOrder): void {
    const { exec, argsHash } = this.#known(effect.execId);
    switch (effect.kind) {
      case "ask":
        void this.#ask(exec, argsHash);
        return;
      case "run":
        void this.#run(exec);
        return;
      case "cancel":
        this.#stop(effect.execId, this.#outputs.isLeft() ? LEFT : undefined);
        return;
      case "stop_leftover":
        this.#tools.stopLeftover(exec);
        return;
      case "report":
        this.#asking.get(effect.execId)?.abort();
        this.#outputs.answer(effect.execId, this.#reportOf(exec, effect.outcome));
        return;
    }
  }

  /** Stops the run, or closes the question whether to run it. */
  #stop(execId: string, reason: HoldfastError | undefined): void {
    this.#running.get(execId)?.abort(reason);
    this.#asking.get(execId)?.abort(reason);
  }

  async #ask(exec: ExecRequest, argsHash: string): Promise<void> {
    const { execId } = exec;
    const controller = new AbortController();
    this.#asking.set(execId, controller);
    let approval: Approval;
    try {
      const { idempotencyKey } = this.#outputs;
      const download = (blobId: string) => this.#outputs.download(blobId);
      const { signal } = controller;
      approval = await this.#tools.approve(exec, { idempotencyKey, download, signal });
    } catch (cause) {
      // Who cannot be asked has not said yes.
      const why = cause instanceof Error ? cause.message : String(cause);
      approval = { allowed: false, untilMs: 0, reason: `the approval could not be asked for: ${why}` };
    }
    this.#asking.delete(execId);
    if (Number.isNaN(approval.untilMs)) approval = { allowed: false, untilMs: 0, reason: OWN_WORDS.noNumber };
    if (approval.allowed) {
      this.#outputs.input({ kind: "approved", execId, argsHash, untilMs: approval.untilMs });
      return;
    }
    this.#denials.set(execId, approval.reason ?? "denied");
    this.#outputs.input({ kind: "denied", execId });
  }

  #reportOf(exec: ExecRequest, outcome: tools.OwnOutcome): Uint8Array {
    switch (outcome) {
      case "unknown":
        return writeExecUnknown(exec, OWN_WORDS.unknown);
      case "aborted":
        return writeExecAborted(exec, OWN_WORDS.aborted);
      case "denied":
        return writeExecRejected(
          exec,
          this.#denials.get(exec.execId)?.slice(0, MESSAGE_CHARS_MAX) ?? "denied",
        );
    }
  }

  async #run(exec: ExecRequest): Promise<void> {
    const controller = new AbortController();
    this.#running.set(exec.execId, controller);
    let body: Uint8Array;
    try {
      body = isKnownKind(exec)
        ? await this.#tools.run(exec, this.#runOf(exec.execId, controller))
        : writeExecThrow(exec, "unknown_kind", "this client does not know this kind of exec");
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      body = writeExecError(exec, message.slice(0, MESSAGE_CHARS_MAX));
    }
    this.#running.delete(exec.execId);
    // Every exec has an outcome (C1): one that is too large to send is an error that says so.
    if (body.length > LIMITS.chunkBytesMax) {
      body = writeExecError(
        exec,
        `the result has ${body.length} bytes, at most ${LIMITS.chunkBytesMax} can be sent`,
      );
    }
    this.#outputs.answer(exec.execId, body);
  }

  #runOf(execId: string, { signal }: AbortController): ToolRun {
    const outputs = this.#outputs;
    return {
      signal,
      idempotencyKey: outputs.idempotencyKey,
      say: (body) => {
        // Once it is handed over its result is on the way, and nothing may follow that.
        const isOver = this.#running.get(execId)?.signal !== signal;
        const over = new HoldfastError("stream_ended", "this run is over: its result was its last reply");
        const said = isOver ? Promise.reject(over) : outputs.say(body);
        // Nobody has to wait for it.
        said.catch(() => undefined);
        return said;
      },
      upload: (bytes) => outputs.upload(bytes),
      download: (blobId) => outputs.download(blobId),
    };
  }

  #know(exec: ExecRequest, message: Uint8Array): void {
    this.#execs.set(exec.execId, { exec, message, argsHash: bytesToHex(sha256(exec.args)) });
  }

  #known(execId: string): KnownExec {
    const known = this.#execs.get(execId);
    assert(known !== undefined, "an exec is known before anything happens to it");
    return known;
  }
}

/** What a newer server asks and this client cannot do: answered, never ignored, and nothing is run for it. */
function isKnownKind(exec: ExecRequest): boolean {
  return exec.kind !== "unrecognized";
}

const HARMLESS = { repeatable: true, needsApproval: false };

const OWN_WORDS = {
  unknown: "the client stopped while this ran; whether it took effect is not known",
  aborted: "it was stopped before it ran",
  noNumber: "the approval says until when it is good, and that is no number",
} as const;
