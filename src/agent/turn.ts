/**
 * Drives one turn: asks `next` what is to be done, does it, and asks again, until the turn is over.
 *
 * The driver decides nothing. What it does is in the facts afterwards: as an event of the log, or as something found out.
 */
import { clone, type MessageInitShape, toBinary } from "../protocol/message.ts";
import { unreachable } from "../protocol/assert.ts";
import { blobIdBytes } from "../protocol/blob-id.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  type AttachmentSchema,
  BlobKind,
  FinishReason,
  type RunRequest,
  type UserMessage,
  UserMessageSchema,
} from "../protocol/messages.ts";
import type { ApplicationStream } from "../server/application.ts";
import { type ExecMessage, type ExecPlan, planAt } from "../turn/call-plan.ts";
import { isSummarizing } from "../turn/conversation.ts";
import type { Decision, Ending, OverCall, StepPlace } from "../turn/decision.ts";
import { execIdOf } from "../turn/exec-ids.ts";
import type { Facts } from "../turn/facts.ts";
import { prepared, published, RESTART_ONLY } from "../turn/found.ts";
import { promptOf as beginningOf } from "../turn/join.ts";
import { next, type TurnLimits } from "../turn/next.ts";
import { requestText } from "../turn/open-step.ts";
import { isKept } from "../turn/reader.ts";
import type { ToolImage } from "../turn/tool-results.ts";
import { type BlobCache, putContent } from "./blobs.ts";
import { type Continued, type Model, type ModelCall, ModelFailure, type Models } from "./model.ts";
import { beginStep, Diverged, ModelStep, Unjoined } from "./model-step.ts";
import { StepRequests } from "./step-requests.ts";
import { type Offer, offerOf } from "./tool-plan.ts";
import { failureOf } from "./turn-failure.ts";
import { Stopped, type TurnIo } from "./turn-io.ts";
import { TOOL_OUTCOMES } from "../turn/tool-outcome.ts";

export interface TurnContext {
  readonly models: Models;
  readonly cache: BlobCache;
  readonly limits: TurnLimits;
  readonly environment: TurnEnvironment;
}

/** Time, timers and randomness: handed in, so that a simulator can run turns on a clock of its own. */
export interface TurnEnvironment {
  /** Milliseconds since some moment; never goes back. */
  monotonic(): number;
  random(): number;
  after(delayMs: number, run: () => void): () => void;
}

/** Until the time has passed, or a signal ends it. */
export function pause(environment: TurnEnvironment, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = environment.after(delayMs, resolve);
    const stop = (): void => {
      cancel();
      resolve();
    };
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop);
  });
}

type Of<Kind extends Decision["kind"]> = Extract<Decision, { kind: Kind }>;

/** After these the decision that they were for is still due, and so are the bytes that were fetched for it. */
const GATHERING: ReadonlySet<Decision["kind"]> = new Set(["fetch", "get", "wait", "yield"]);

const encoder = new TextEncoder();

export class Turn {
  readonly #context: TurnContext;
  readonly #io: TurnIo;
  readonly #facts: Facts;
  #offer: Offer | undefined;
  #model: Model | undefined;
  /** Of the step that is under way. */
  #requests: { readonly step: number; readonly sent: StepRequests } | undefined;

  constructor(context: TurnContext, io: TurnIo) {
    this.#context = context;
    this.#io = io;
    this.#facts = io.facts;
  }

  /** Throws `Stopped` when the turn is no longer this run's. */
  async run(): Promise<Ending> {
    const { found } = this.#facts;
    for (;;) {
      if (this.#io.isStopped) throw new Stopped();
      const heard = this.#io.changes;
      this.#noteWays();
      const decision = next(this.#facts, this.#context.limits);
      this.#io.cacheLearned();
      if (decision.kind === "end") return decision.ending;
      try {
        await this.#carryOut(decision, heard);
      } catch (error) {
        const failure = failureOf(error);
        if (failure === undefined) throw error;
        // A turn that fails for the second time cannot keep what it did.
        if (found.failure !== undefined) return { reason: "failed", failure };
        found.failure = failure;
      }
      if (found.fetched.size > 0 && !GATHERING.has(decision.kind)) found.fetched.clear();
    }
  }

  /** What is known of the model that answers the open step changes with every answer of it. */
  #noteWays(): void {
    const { open, options, found } = this.#facts;
    if (open !== undefined) found.ways = this.#model?.waysOf?.(open.servedBy, options) ?? RESTART_ONLY;
  }

  #carryOut(decision: Exclude<Decision, { kind: "end" }>, heard: number): Promise<void> {
    switch (decision.kind) {
      case "wait":
        return this.#io.changeSince(heard);
      case "yield":
        return pause(this.#context.environment, 0);
      case "open":
        return this.#open(decision.request);
      case "fetch":
        return this.#io.fetch(decision.blobIds);
      case "get":
        return this.#get(decision);
      case "keep":
        return this.#keep(decision);
      case "publish":
        published(this.#facts.found, decision.draft);
        return this.#io.emit({ case: "conversationCheckpointUpdate", value: decision.draft.state });
      case "relay":
        return this.#relay(decision);
      case "stop":
        return this.#stop(decision);
      case "issue":
        return this.#issue(decision);
      case "ask":
        return this.#ask(decision);
      case "complete":
        return this.#complete(decision.calls);
      case "append_user":
        return this.#appendUser(decision.message);
      case "tell_summary":
        return this.#io.update({ case: "summary", value: { text: decision.text } });
      case "run_command":
        return this.#runCommand(decision);
      case "call_model":
        return this.#callModel(decision);
      default:
        return unreachable(decision);
    }
  }

  async #open(request: RunRequest): Promise<void> {
    this.#offer = offerOf(request);
    const isCommand = request.action?.action.case === "shellCommandAction";
    if (!isCommand) this.#model = this.#context.models.resolve(request.model);
    const contextTokensMax = this.#model?.contextTokensMax ?? 0;
    const holdsCalls = this.#model?.holdsCalls === true && this.#io.stream.lasting !== undefined;
    // Without its key, or without a store, nothing is kept: there are no checkpoints then.
    const keepsConversation = request.serverKeepsBlobs && this.#io.stream.conversation !== undefined;
    this.#facts.found.opened = { plans: this.#offer, contextTokensMax, keepsConversation, holdsCalls };
  }

  async #get({ blobIds }: Of<"get">): Promise<void> {
    for (const id of blobIds) await this.#io.kv({ case: "getBlobArgs", value: { blobId: blobIdBytes(id) } });
  }

  async #keep({ blobs, draft, ending }: Of<"keep">): Promise<void> {
    for (const { bytes, kind, id } of blobs) await this.#io.setBlob(bytes, kind, id);
    if (draft !== undefined) prepared(this.#facts.found, draft, ending);
  }

  async #relay({ pieces }: Of<"relay">): Promise<void> {
    for (const { execId, toolCallId, piece } of pieces) {
      if (piece.kind === "progress") {
        const value = { toolCallId, execId, text: piece.text };
        await this.#io.update({ case: "toolCallDelta", value });
      } else {
        const output = { case: piece.kind, value: piece.bytes };
        await this.#io.update({ case: "shellOutputDelta", value: { execId, output } });
      }
    }
  }

  async #stop({ execIds }: Of<"stop">): Promise<void> {
    for (const execId of execIds) {
      const message = { case: "abort", value: { execId } } as const;
      await this.#io.emit({ case: "execServerControlMessage", value: { message } });
    }
  }

  /** What is too large for an event is put beside the stream first, all at once so that they share syncs. */
  async #issue({ execs }: Of<"issue">): Promise<void> {
    const requests = execs.map(async ({ execId, toolCallId, plan }) => {
      return { execId, toolCallId, message: await this.#execMessage(plan) };
    });
    for (const request of await Promise.all(requests)) {
      const id = this.#facts.book.issued + 1;
      await this.#io.emit({ case: "execServerMessage", value: { id, ...request } });
    }
  }

  async #execMessage(plan: ExecPlan): Promise<ExecMessage> {
    const { model: asked = "", subagentDepth = 0 } = this.#facts.request ?? {};
    switch (plan.kind) {
      case "exec":
        return plan.message;
      case "write": {
        const { path, text, expectedSha256 } = plan;
        const content = await this.#content(text);
        const expected = expectedSha256 === undefined ? {} : { expectedSha256 };
        return { case: "writeArgs", value: { path, content, ...expected } };
      }
      case "subagent": {
        const { description, prompt, read_only: readOnly = false, model: chosen = "" } = plan.args;
        // The user's choice of a model holds for subagents too.
        const model = chosen === "" ? asked : chosen;
        const value = { description, prompt: await this.#content(prompt), model, readOnly };
        return { case: "subagentArgs", value: { ...value, depth: subagentDepth + 1 } };
      }
      case "declared": {
        const { name, server, args } = plan;
        return { case: "mcpArgs", value: { name, server, argsJson: await this.#content(args) } };
      }
    }
  }

  #content(text: string): ReturnType<TurnIo["content"]> {
    return this.#io.content(encoder.encode(text));
  }

  #ask({ toolCallId, questions }: Of<"ask">): Promise<void> {
    const value = {
      toolCallId,
      questions: questions.map(({ text, options = [], allow_multiple: allowMultiple = false }, at) => ({
        id: String(at + 1),
        text,
        allowMultiple,
        allowText: true,
        options: options.map((label, place) => ({ id: String(place + 1), label })),
      })),
    };
    const id = this.#facts.queries.length + 1;
    return this.#io.emit({ case: "interactionQuery", value: { id, query: { case: "askQuestion", value } } });
  }

  async #complete(calls: readonly OverCall[]): Promise<void> {
    const texts = calls.map(async (call) => ({ ...call, content: await this.#content(call.result.text) }));
    for (const {
      part,
      execIds,
      result: { outcome, images },
      content,
    } of await Promise.all(texts)) {
      const { toolCallId, tool } = part;
      const files: MessageInitShape<typeof AttachmentSchema>[] = [];
      for (const image of images) files.push(await this.#file(image, images.length === 1));
      const told = { outcome: TOOL_OUTCOMES[outcome], result: content, execIds: [...execIds], files };
      const toolCall = { toolCallId, tool, ...told };
      await this.#io.update({ case: "toolCallCompleted", value: { toolCall } });
    }
  }

  /** With the conversation's blobs, so that the next turn still has it. */
  async #file(image: ToolImage, isOnly: boolean): Promise<MessageInitShape<typeof AttachmentSchema>> {
    const { mediaType, bytes } = image;
    if (isKept(this.#facts)) return { mediaType, content: await this.#io.setBlob(bytes, BlobKind.CONTENT) };
    const content = isOnly ? this.#io.content(bytes) : putContent(bytes, this.#io.stream.blobs);
    return { mediaType, content: await content };
  }

  /** What is attached to a large message is put beside the stream. */
  async #appendUser(message: UserMessage): Promise<void> {
    const userMessage = clone(message);
    const { blobs } = this.#io.stream;
    if (toBinary(UserMessageSchema, message).length > LIMITS.inlineBytesMax) {
      for (const attachment of userMessage.attachments) {
        const { content } = attachment.content ?? {};
        if (content?.case === "inline") attachment.content = await putContent(content.value, blobs);
      }
      const told = userMessage.messageJson?.content;
      if (told?.case === "inline") userMessage.messageJson = await putContent(told.value, blobs);
    }
    await this.#io.update({ case: "userMessageAppended", value: { userMessage } });
  }

  async #runCommand({ place, call }: Of<"run_command">): Promise<void> {
    const { toolCallId, tool, args } = call;
    const { step, attempt } = place;
    const argsJson = await this.#content(args);
    beginStep(this.#io, place, "");
    const toolCall = { toolCallId, tool, argsJson, execIds: [execIdOf(step, attempt, 0)] };
    void this.#io.update({ case: "toolCallStarted", value: { toolCall } });
    await this.#io.update({ case: "stepCompleted", value: { step, finishReason: FinishReason.TOOL_CALLS } });
  }

  async #callModel({ place, prompt }: Of<"call_model">): Promise<void> {
    const { found, request, options } = this.#facts;
    const [offer, model] = [this.#offer, this.#model];
    if (offer === undefined || model === undefined || request === undefined) return;
    const requests = this.#requestsOf(place);
    // A cancel ends the pause; the attempt sees it and makes no call.
    if (place.pauseMs > 0) await pause(this.#context.environment, place.pauseMs, this.#io.stopSignal);
    const { begin } = place;
    const isHeld = begin.how === "attach";
    const isUnproved = begin.how === "prefill" && begin.join.isUnproved;
    const isLast = isSummarizing(this.#facts);
    const step = new ModelStep(
      {
        io: this.#io,
        keepsBlobs: request.keepsBlobs,
        now: () => this.#context.environment.monotonic(),
        plan: (tool, args, at) => planAt(offer, isLast, tool, args, at),
        onJoined: () => this.#noteContinued(isUnproved ? "unproved" : "prefill"),
      },
      place,
    );
    const { system, messages, withTools, files } = prompt;
    const file = async (blobId: string): Promise<Uint8Array> => files.get(blobId) ?? new Uint8Array();
    const tools = withTools ? offer.tools : [];
    const { conversationId } = request;
    const only = {
      ...(place.onlyModel === undefined ? {} : { onlyModel: place.onlyModel }),
      ...(begin.how === "prefill" ? { prefill: beginningOf(begin.join) } : {}),
    };
    const names = requestNames(this.#io.stream, place);
    const asked = { system, messages, tools, options, file, conversationId, requests, ...only, ...names };
    if (begin.how === "restart") this.#noteContinued("restart");
    if ("rollbackTo" in begin && found.broken === undefined) this.#noteContinued("left");
    try {
      await step.run(model, asked);
      if (isHeld) this.#noteContinued("replay");
    } catch (error) {
      const isNotHeld = error instanceof ModelFailure && error.kind === "not_held";
      const isRefuted = error instanceof Diverged || error instanceof Unjoined;
      // It may have been read to its end, and then nothing else ends what is held of it.
      if (isRefuted) model.done?.(names);
      if (isHeld && (isRefuted || isNotHeld)) found.isLost = true;
      else this.#noteBreak(error, place, requests);
    }
  }

  #noteContinued(how: Continued): void {
    const model = this.#facts.open?.servedBy ?? this.#model?.id ?? "";
    const { principal, idempotencyKey } = this.#io.stream;
    this.#model?.noteContinued?.(model, how, { principal, idempotencyKey });
  }

  #noteBreak(error: unknown, { begin }: StepPlace, { sent, passedMs }: StepRequests): void {
    // A model that takes no beginning of its answer says so by refusing the request.
    const isRefused =
      begin.how === "prefill" && error instanceof ModelFailure && error.kind === "invalid_request";
    const isUnjoined = isRefused || error instanceof Unjoined;
    if (isUnjoined) this.#noteContinued(isRefused ? "refused" : "unjoined");
    const failure = error instanceof ModelFailure ? failureOf(error) : undefined;
    if (!(error instanceof ModelFailure) || failure === undefined) throw error;
    this.#facts.found.broken = {
      failure,
      isPassing: error.isPassing || isUnjoined,
      retryAfterMs: error.retryAfterMs,
      requests: sent,
      passedMs,
      random: this.#context.environment.random(),
      wasHeld: begin.how === "attach",
      isUnjoined,
    };
  }

  /** They are counted over all attempts of a step. */
  #requestsOf({ step, requestsBefore: before }: StepPlace): StepRequests {
    if (this.#requests?.step === step) {
      this.#requests.sent.beginAttempt();
      return this.#requests.sent;
    }
    const io = this.#io;
    const isHeadHeld = this.#facts.options?.shownIsFinal === true;
    const untilDurable = (): Promise<void> => io.untilDurable(io.head);
    const tell = (requests: number): void =>
      void io.update({ case: "stepRequested", value: { step, requests } });
    const now = (): number => this.#context.environment.monotonic();
    const sent = new StepRequests({ before, isHeadHeld, now, tell, untilDurable });
    this.#requests = { step, sent };
    return sent;
  }
}

/** Equal for the same attempt in every process that runs the stream, so nothing is logged to find a request again (G6). */
function requestNames(
  { lasting, principal, idempotencyKey }: ApplicationStream,
  place: StepPlace,
): Pick<ModelCall, "nameOf" | "hostEpoch" | "stream"> {
  if (lasting === undefined) return {};
  const nameOf = (request: number): string => lasting.secretName(requestText(place, request));
  return { nameOf, hostEpoch: lasting.hostEpoch, stream: { principal, idempotencyKey } };
}
