/**
 * The tool calls of a step, each from its first exec to its result.
 *
 * What a call does next follows from its arguments and from what the logs say of its execs, so it is the same before
 * and after a restart: what was asked is not asked again, what was answered is used. A call may own several execs (an
 * edit reads, then writes); their ids say so and are unique within the stream.
 *
 * Invariant: one `tool_call_completed` per call, after the outcomes of all its execs.
 */
import { LIMITS } from "../protocol/limits.ts";
import type { ToolCallPart } from "../protocol/chat-message.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type AttachmentSchema,
  BlobKind,
  type ExecClientMessage,
  type InteractionResponse,
  type ReadSuccess,
  type RunRequest,
  ToolOutcome,
} from "../protocol/messages.ts";
import { putContent } from "./blobs.ts";
import { applyEdits } from "./edit.ts";
import { writeAfter } from "./exec-ids.ts";
import { callResult, type CallResult, describeReply, type Outcome, type ToolImage } from "./tool-results.ts";
import type { CallPlan, ExecMessage } from "./tool-plan.ts";
import type { TurnIo } from "./turn-io.ts";

export interface OpenCall {
  readonly part: ToolCallPart;
  /** Its name within the stream, and the id of its first exec. */
  readonly place: string;
  readonly plan: CallPlan;
  readonly step: number;
}

/** Of a call that is one exec. */
type SinglePlan = Exclude<CallPlan, { kind: "invalid" | "todos" | "ask" | "edit" }>;

/** What can be said of a call now. */
type Progress =
  | { readonly kind: "waiting" }
  | { readonly kind: "exec"; readonly execId: string; readonly after?: string; readonly message: ExecMessage }
  | { readonly kind: "ask" }
  | { readonly kind: "over"; readonly result: CallResult };

const encoder = new TextEncoder();
const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const OUTCOMES: Readonly<Record<Outcome, ToolOutcome>> = {
  done: ToolOutcome.DONE,
  failed: ToolOutcome.FAILED,
  denied: ToolOutcome.DENIED,
  aborted: ToolOutcome.ABORTED,
  unknown: ToolOutcome.UNKNOWN,
};

export class ToolCalls {
  readonly #io: TurnIo;
  readonly #request: RunRequest;

  constructor(io: TurnIo, request: RunRequest) {
    this.#io = io;
    this.#request = request;
  }

  /** Carries the calls on as far as they go, side by side so that they share syncs; true when anything was done. */
  async advance(calls: readonly OpenCall[]): Promise<boolean> {
    const moves = await Promise.all(calls.map((call) => this.#advance(call)));
    return moves.includes(true);
  }

  async #advance(call: OpenCall): Promise<boolean> {
    const { log } = this.#io;
    const isRelayed = await this.#relay(call);
    const progress = await this.#progress(call);
    switch (progress.kind) {
      case "waiting":
        return isRelayed;
      case "exec": {
        if (progress.after !== undefined) {
          log.feed({ kind: "exec_followed", execId: progress.execId, after: progress.after });
        }
        await this.#issue(call, progress.execId, progress.message);
        return true;
      }
      case "ask":
        await this.#ask(call);
        return true;
      case "over":
        // What it said last may have come while the rest was passed on.
        await this.#relay(call);
        await this.#complete(call, progress.result);
        return true;
    }
  }

  async #progress(call: OpenCall): Promise<Progress> {
    const { plan, place } = call;
    switch (plan.kind) {
      case "invalid":
        return over(callResult("failed", plan.why));
      case "todos":
        return over(callResult("done", "The list is kept."));
      case "ask":
        return this.#asking(call);
      case "edit":
        return this.#editing(call, plan.path, plan.edits);
      case "subagent":
        if (this.#request.subagentDepth >= LIMITS.subagentDepthMax) {
          const why = `Subagents nest at most ${LIMITS.subagentDepthMax} deep: do this yourself.`;
          return over(callResult("failed", why));
        }
        return this.#single(place, plan);
      default:
        return this.#single(place, plan);
    }
  }

  async #firstMessage(plan: SinglePlan): Promise<ExecMessage> {
    switch (plan.kind) {
      case "exec":
        return plan.message;
      case "write":
        return this.#writeMessage(plan.path, plan.text);
      case "subagent": {
        // The user's choice of a model holds for subagents too.
        const { description, prompt, read_only: readOnly = false } = plan.args;
        const { model: chosen = "" } = plan.args;
        const model = chosen === "" ? this.#request.model : chosen;
        const content = await this.#io.content(encoder.encode(prompt));
        const depth = this.#request.subagentDepth + 1;
        return { case: "subagentArgs", value: { description, prompt: content, model, depth, readOnly } };
      }
      case "declared": {
        const argsJson = await this.#io.content(encoder.encode(plan.args));
        return { case: "mcpArgs", value: { name: plan.name, server: plan.server, argsJson } };
      }
    }
  }

  async #writeMessage(path: string, text: string, expectedSha256?: Uint8Array): Promise<ExecMessage> {
    const content = await this.#io.content(encoder.encode(text));
    const expected = expectedSha256 === undefined ? {} : { expectedSha256 };
    return { case: "writeArgs", value: { path, content, ...expected } };
  }

  /** A call that is one exec. */
  async #single(execId: string, plan: SinglePlan): Promise<Progress> {
    const settled = await this.#settled(execId);
    return settled === undefined ? this.#unsettled(execId, () => this.#firstMessage(plan)) : over(settled);
  }

  /** The request is made when it is asked for, and not each time that somebody looks: it may be large. */
  async #unsettled(
    execId: string,
    message: () => ExecMessage | Promise<ExecMessage>,
    after?: string,
  ): Promise<Progress> {
    const { log } = this.#io;
    // Its outcome may have come since it was looked for: then it is looked for again, never asked again (C1).
    if (log.stageOf(execId) === "issued" || log.outcomeOf(execId) !== undefined) return { kind: "waiting" };
    if (log.cancelled !== undefined)
      return over(callResult("aborted", "The turn was stopped before this ran."));
    return { kind: "exec", execId, message: await message(), ...(after === undefined ? {} : { after }) };
  }

  /** The result of an exec that has its outcome. */
  async #settled(execId: string): Promise<CallResult | undefined> {
    const { log } = this.#io;
    const reply = log.outcomeOf(execId);
    if (reply === undefined) return undefined;
    return describeReply(reply, log.partialsOf(execId), (content) => this.#io.read(content));
  }

  async #editing(
    call: OpenCall,
    path: string,
    edits: Extract<CallPlan, { kind: "edit" }>["edits"],
  ): Promise<Progress> {
    const read = call.place;
    const write = writeAfter(read);
    const written = await this.#settled(write);
    if (written !== undefined) {
      const text = `Edited ${path}. ${written.text}`;
      return over(written.outcome === "done" ? callResult("done", text) : written);
    }
    if (this.#io.log.stageOf(write) === "issued") return { kind: "waiting" };
    const found = await this.#settled(read);
    if (found === undefined) return this.#unsettled(read, () => ({ case: "readArgs", value: { path } }));
    const success = readSuccess(this.#io.log.outcomeOf(read));
    if (success === undefined) return over(found);
    const edited = editedText(await this.#io.read(success.content), success, edits);
    if (typeof edited === "string") return over(callResult("failed", edited));
    return this.#unsettled(write, () => this.#writeMessage(path, edited.text, success.sha256), read);
  }

  #asking(call: OpenCall): Progress {
    const { log } = this.#io;
    const query = log.queries.find(
      ({ step, toolCallId }) => step === call.step && toolCallId === call.part.toolCallId,
    );
    const answer = query === undefined ? undefined : log.answerTo(query.id);
    if (answer !== undefined) return over(describeAnswer(answer));
    if (log.cancelled !== undefined)
      return over(callResult("aborted", "The turn was stopped before an answer came."));
    if (log.isClosed) return over(callResult("failed", "There is nobody to ask."));
    return query === undefined ? { kind: "ask" } : { kind: "waiting" };
  }

  #ask({ plan, part }: OpenCall): Promise<void> {
    const questions = plan.kind === "ask" ? plan.questions : [];
    const value = {
      toolCallId: part.toolCallId,
      questions: questions.map(({ text, options = [], allow_multiple: allowMultiple = false }, at) => ({
        id: String(at + 1),
        text,
        allowMultiple,
        allowText: true,
        options: options.map((label, place) => ({ id: String(place + 1), label })),
      })),
    };
    return this.#io.inTurn(() => {
      const id = this.#io.log.nextQueryId;
      return this.#io.emit({
        case: "interactionQuery",
        value: { id, query: { case: "askQuestion", value } },
      });
    });
  }

  /** The step's output is complete, or there would be no open call; the request stands behind it and leaves with it, or later (C0). */
  #issue({ part }: OpenCall, execId: string, message: ExecMessage): Promise<void> {
    return this.#io.inTurn(() => {
      const id = this.#io.log.execsIssued + 1;
      return this.#io.emit({
        case: "execServerMessage",
        value: { id, execId, toolCallId: part.toolCallId, message },
      });
    });
  }

  /** Passes on what running execs have said, for the readers that do not run them. */
  async #relay({ place, part }: OpenCall): Promise<boolean> {
    const pieces = this.#io.log.unrelayedOf(place);
    for (const piece of pieces) {
      if (piece.kind === "progress") {
        const value = { toolCallId: part.toolCallId, execId: place, text: piece.text };
        await this.#io.inTurn(() => this.#io.update({ case: "toolCallDelta", value }));
      } else {
        const output = { case: piece.kind, value: piece.bytes };
        const value = { execId: place, output };
        await this.#io.inTurn(() => this.#io.update({ case: "shellOutputDelta", value }));
      }
    }
    return pieces.length > 0;
  }

  /** With the conversation's blobs, so that the next turn still has it. */
  async #file(
    { mediaType, bytes }: ToolImage,
    isOnly: boolean,
  ): Promise<MessageInitShape<typeof AttachmentSchema>> {
    if (this.#request.keepsBlobs)
      return { mediaType, content: await this.#io.setBlob(bytes, BlobKind.CONTENT) };
    const content = isOnly ? this.#io.content(bytes) : putContent(bytes, this.#io.stream.blobs);
    return { mediaType, content: await content };
  }

  async #complete({ part, place }: OpenCall, { outcome, text, images }: CallResult): Promise<void> {
    const files = await Promise.all(images.map((image) => this.#file(image, images.length === 1)));
    const execIds = [place, writeAfter(place)].filter((execId) => this.#io.log.stageOf(execId) !== undefined);
    const result = await this.#io.content(encoder.encode(text));
    const { toolCallId, tool } = part;
    const toolCall = { toolCallId, tool, outcome: OUTCOMES[outcome], result, execIds, files };
    await this.#io.inTurn(() => this.#io.update({ case: "toolCallCompleted", value: { toolCall } }));
  }
}

function over(result: CallResult): Progress {
  return { kind: "over", result };
}

function readSuccess(reply: ReturnType<TurnIo["log"]["outcomeOf"]>): ReadSuccess | undefined {
  if (reply === undefined || reply === "unknown" || reply.kind === "throw") return undefined;
  const { message }: ExecClientMessage = reply.reply;
  if (message.case !== "readResult" || message.value.result.case !== "success") return undefined;
  return message.value.result.value;
}

function editedText(
  bytes: Uint8Array,
  { truncated }: ReadSuccess,
  edits: Extract<CallPlan, { kind: "edit" }>["edits"],
): { readonly text: string } | string {
  if (truncated) return "Nothing was changed: the file is too large to be edited in one piece.";
  let text: string;
  try {
    text = strictDecoder.decode(bytes);
  } catch {
    return "Nothing was changed: the file is not UTF-8 text.";
  }
  const edited = applyEdits(
    text,
    edits.map((edit) => ({ oldText: edit.old_text, newText: edit.new_text, all: edit.replace_all ?? false })),
  );
  return edited.kind === "failed" ? edited.why : { text: edited.text };
}

function describeAnswer({ response }: InteractionResponse): CallResult {
  switch (response.case) {
    case "askQuestion": {
      const lines = response.value.answers.map(({ questionId, optionIds, text }) => {
        const chosen = optionIds.length === 0 ? [] : [`option ${optionIds.join(", ")}`];
        return `${questionId}: ${[...chosen, ...(text === "" ? [] : [text])].join("; ")}`;
      });
      return callResult("done", lines.length === 0 ? "The user skipped the questions." : lines.join("\n"));
    }
    case "approval":
      return callResult("done", response.value.approved ? "yes" : `no ${response.value.reason}`.trim());
    case "unanswerable":
      return callResult("failed", `There is nobody to ask. ${response.value.reason}`.trim());
    case undefined:
      return callResult("failed", "The client answered with something that this server does not know.");
  }
}
