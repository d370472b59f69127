/**
 * Carries out what the tool journal orders: asks, runs, cancels, reports.
 *
 * A client is given it together with its tools, so a page without tools does not load it.
 *
 * It starts nothing by itself. A run that this process has begun is known here until its result is
 * handed over, so cancelling finds it.
 */
import { sha256 } from "../protocol/sha256.ts";
import { hexOf } from "../protocol/bytes.ts";
import { assert } from "../protocol/assert.ts";
import { firstChars } from "../protocol/characters.ts";
import type { JournalRecord, Recovered } from "../core/journal.ts";
import type { ToolOrder } from "../core/client-state.ts";
import type { ToolNews } from "../core/client-stream.ts";
import type * as toolJournal from "../core/tool-journal.ts";
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
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { limitedTools, type ToolLimit } from "./tool-limits.ts";
import type { Approval, ToolRun, Tools } from "./tools.ts";

/** Enough to say what went wrong. */
const MESSAGE_CHARS_MAX = 10_000;

interface RunnerOutputs extends Pick<ToolRun, "idempotencyKey" | "say" | "upload" | "download"> {
  /** The encoded result of an exec, to be said once there is room. */
  answer(execId: string, body: Uint8Array): void;
  input(input: ToolNews): void;
  /** This client has let go of the stream, which continues without it. */
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

/** Tools, and what runs them at most once: for the option `tools` of a client. */
export interface ToolRunner {
  /** For one stream. `limits` may grow later. */
  begin(journal: Recovered, outputs: RunnerOutputs, limits: readonly ToolLimit[]): StreamTools;
}

type StreamTools = ReturnType<typeof streamTools>;

export function toolRunner(tools: Tools): ToolRunner {
  return {
    begin: (journal, outputs, limits) => streamTools(limitedTools(tools, limits), journal, outputs),
  };
}

function streamTools(tools: Tools, journal: Recovered, outputs: RunnerOutputs) {
  const execs = new Map<string, KnownExec>();
  const running = new Map<string, AbortController>();
  const asking = new Map<string, AbortController>();
  /** Why an exec was denied, until that is reported. */
  const denials = new Map<string, string>();

  function requested(exec: ExecRequest, eventId: number, message: Uint8Array): void {
    const { repeatable, needsApproval } = isKnownKind(exec) ? tools.policy(exec) : HARMLESS;
    const { execId } = exec;
    const argsHash = hashOf(exec);
    if (!execs.has(execId)) execs.set(execId, { exec, message, argsHash });
    outputs.input({ kind: "requested", execId, eventId, argsHash, repeatable, needsApproval });
  }

  async function ask(exec: ExecRequest, argsHash: string): Promise<void> {
    const { execId } = exec;
    const controller = new AbortController();
    asking.set(execId, controller);
    let approval: Approval;
    try {
      const { idempotencyKey, download } = outputs;
      approval = await tools.approve(exec, { idempotencyKey, download, signal: controller.signal });
    } catch (cause) {
      // Who cannot be asked has not said yes.
      const reason = `the approval could not be asked for: ${messageOf(cause)}`;
      approval = { allowed: false, untilMs: 0, reason };
    }
    asking.delete(execId);
    if (Number.isNaN(approval.untilMs)) approval = { allowed: false, untilMs: 0, reason: OWN_WORDS.noNumber };
    if (approval.allowed) {
      outputs.input({ kind: "approved", execId, argsHash, untilMs: approval.untilMs });
      return;
    }
    denials.set(execId, approval.reason ?? "denied");
    outputs.input({ kind: "denied", execId });
  }

  function reportOf(exec: ExecRequest, outcome: toolJournal.OwnOutcome): Uint8Array {
    switch (outcome) {
      case "unknown":
        return writeExecUnknown(exec, OWN_WORDS.unknown);
      case "aborted":
        return writeExecAborted(exec, OWN_WORDS.aborted);
      case "denied":
        return writeExecRejected(exec, firstChars(denials.get(exec.execId) ?? "denied", MESSAGE_CHARS_MAX));
    }
  }

  async function run(exec: ExecRequest): Promise<void> {
    const controller = new AbortController();
    running.set(exec.execId, controller);
    let body: Uint8Array;
    try {
      body = isKnownKind(exec)
        ? await tools.run(exec, runOf(exec.execId, controller))
        : writeExecThrow(exec, "unknown_kind", "this client does not know this kind of exec");
    } catch (cause) {
      body = writeExecError(exec, firstChars(messageOf(cause), MESSAGE_CHARS_MAX));
    }
    running.delete(exec.execId);
    // Every exec has an outcome (C1): one that is too large to send is an error that says so.
    if (body.length > LIMITS.chunkBytesMax) {
      body = writeExecError(
        exec,
        `the result has ${body.length} bytes, at most ${LIMITS.chunkBytesMax} can be sent`,
      );
    }
    outputs.answer(exec.execId, body);
  }

  function runOf(execId: string, { signal }: AbortController): ToolRun {
    const { idempotencyKey, upload, download } = outputs;
    return {
      signal,
      idempotencyKey,
      upload,
      download,
      say: (body) => {
        // Once it is handed over its result is on the way, and nothing may follow that.
        const isOver = running.get(execId)?.signal !== signal;
        const over = new HoldfastError("stream_ended", "this run is over: its result was its last reply");
        const said = isOver ? Promise.reject(over) : outputs.say(body);
        // The caller need not wait for it.
        said.catch(() => undefined);
        return said;
      },
    };
  }

  function known(execId: string): KnownExec {
    const found = execs.get(execId);
    assert(found !== undefined, "an exec is known before anything happens to it");
    return found;
  }

  for (const { request } of journal.execs.values()) {
    // A settled exec is kept without its request: it is not run again.
    const exec = request.length === 0 ? undefined : readExec(request);
    if (exec !== undefined) execs.set(exec.execId, { exec, message: request, argsHash: hashOf(exec) });
  }
  return {
    /** Takes the event for what it is, or says why it cannot be read. */
    lookAt(message: Uint8Array, eventId: number): HoldfastError | undefined {
      try {
        const order = readExecOrder(message);
        if (order?.kind === "request") requested(order.exec, eventId, message);
        if (order?.kind === "abort") outputs.input({ kind: "exec_aborted", execId: order.execId });
        return undefined;
      } catch (cause) {
        // It may have been an exec: to continue as if it were none would leave it without an answer.
        return HoldfastError.from(cause, "invalid_frame");
      }
    },
    recordOf(entry: toolJournal.Entry, phase: "received" | "approved" | "started"): JournalRecord {
      const { execId, eventId, argsHash, repeatable, needsApproval } = entry;
      switch (phase) {
        case "received": {
          const request = known(execId).message;
          return { kind: "exec_received", execId, eventId, argsHash, repeatable, needsApproval, request };
        }
        case "approved":
          return { kind: "exec_approved", execId, argsHash, untilMs: entry.approvedUntilMs };
        case "started":
          return { kind: "exec_started", execId };
      }
    },
    carryOut(effect: ToolOrder): void {
      const { exec, argsHash } = known(effect.execId);
      switch (effect.kind) {
        case "ask":
          void ask(exec, argsHash);
          return;
        case "run":
          void run(exec);
          return;
        case "cancel":
          // Stops the run, or closes the question whether to run it.
          for (const stopped of [running, asking]) {
            stopped.get(effect.execId)?.abort(outputs.isLeft() ? LEFT : undefined);
          }
          return;
        case "stop_leftover":
          tools.stopLeftover(exec);
          return;
        case "report":
          asking.get(effect.execId)?.abort();
          outputs.answer(effect.execId, reportOf(exec, effect.outcome));
          return;
      }
    },
  };
}

/** What a newer server asks and this client cannot do: answered, never ignored, and nothing is run for it. */
function isKnownKind(exec: ExecRequest): boolean {
  return exec.kind !== "unrecognized";
}

function hashOf({ args }: ExecRequest): string {
  return hexOf(sha256(args));
}

const HARMLESS = { repeatable: true, needsApproval: false };

const OWN_WORDS = {
  unknown: "the client stopped while this ran; whether it took effect is not known",
  aborted: "it was stopped before it ran",
  noNumber: "the approval says until when it is good, and that is no number",
} as const;
