/**
 * Subagents: an exec that is carried out by another turn, on a stream of its own.
 *
 * The child's names are derived from the parent's stream and the exec id, so an exec that is asked for again,
 * after whatever crash, finds its child: running, cut off or finished. It is never started twice. The child is an
 * ordinary turn of an ordinary conversation; only who begins it differs.
 */
import { type MessageInitShape } from "../../protocol/message.ts";
import { hmacSha256 } from "../../protocol/sha256.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { lastChars } from "../../protocol/characters.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ExecRequest } from "../../protocol/exec-codec.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  type Content,
  ExecKind,
  type SubagentArgs,
  type SubagentResultSchema,
} from "../../protocol/messages.ts";
import type { ToolRun } from "../tools.ts";
import type { Conversation } from "./conversation.ts";
import type { Conversations } from "./conversations.ts";
import type { OfferedNames } from "./conversation-store.ts";
import { readOnlyTools, withinOffer } from "./offered-tools.ts";
import type { OfferedTools } from "./run-request.ts";
import { childEnd, progressLine } from "./subagent-view.ts";
import type { TurnEnd } from "../../turn/view.ts";
import { Turn } from "./turn.ts";
import { blobIn, bytesIn } from "../../turn/content.ts";
import { encodeClient } from "../../turn/messages.ts";
import { sentContent } from "../sent-content.ts";

export interface SubagentOptions {
  /** Asked for at the first exec: tools are made before the client, and conversations after it. */
  readonly conversations: () => Conversations;
  /** A child runs, or was found running. */
  readonly onChild?: (turn: Turn, exec: ExecRequest) => void;
}

export interface SubagentRunner {
  /** Resolves with the encoded result, for `Tools.run`. */
  run(args: SubagentArgs, exec: ExecRequest, run: ToolRun): Promise<Uint8Array>;
}

export interface ChildNames {
  readonly idempotencyKey: string;
  readonly conversationId: string;
}

const encoder = new TextEncoder();

/** 32 hexadecimal digits each; the purpose keeps the two apart. */
export function childNames(parentIdempotencyKey: string, execId: string): ChildNames {
  const derive = (purpose: string): string => {
    const mac = hmacSha256(encoder.encode(parentIdempotencyKey), encoder.encode(`${purpose}\0${execId}`));
    return hexOf(mac).slice(0, 32);
  };
  return {
    idempotencyKey: derive("holdfast/v1/subagent-stream"),
    conversationId: derive("holdfast/v1/subagent-conversation"),
  };
}

export function subagentRunner(options: SubagentOptions): SubagentRunner {
  return {
    async run(args, exec, run) {
      const names = childNames(run.idempotencyKey, exec.execId);
      // By our own count: what the server says may be wrong.
      const parent = await options.conversations().underWay(run.idempotencyKey);
      const depth = Math.max(args.depth, (parent?.subagentDepth ?? 0) + 1);
      if (depth > LIMITS.subagentDepthMax) {
        const message = `subagents may be nested ${LIMITS.subagentDepthMax} deep, and this one would be ${depth}: do the work here`;
        return encode(exec, { case: "error", value: { message } });
      }
      const asked = { args, depth, run, limit: parent?.turn?.offered };
      let end = await ending(await findChild(options.conversations(), names, asked), exec, run, options);
      // No such stream: its record was written, and then this client died before the stream was opened.
      if (end.reason === "lost" && end.error?.code === "not_found" && !run.signal.aborted) {
        end = await ending(await findChild(options.conversations(), names, asked, true), exec, run, options);
      }
      return encode(exec, await resultOf(end, names, run));
    },
  };
}

interface Asked {
  readonly args: SubagentArgs;
  readonly depth: number;
  readonly run: ToolRun;
  /** What the parent was offered. */
  readonly limit: OfferedNames | undefined;
}

/** The child's turn, or how it ended before this client could tell. */
async function findChild(
  conversations: Conversations,
  names: ChildNames,
  asked: Asked,
  neverRan = false,
): Promise<Turn | TurnEnd> {
  const running = conversations.turnOf(names.idempotencyKey);
  if (running !== undefined) return running;
  const conversation = await known(conversations, names.conversationId);
  if (conversation === undefined) return begin(conversations, names, asked);
  const resumed = await conversation.resume();
  if (resumed !== undefined) return resumed;
  const ended = neverRan ? undefined : await childEnd(conversation, names.idempotencyKey);
  return ended ?? start(conversation, conversations, names, asked);
}

async function known(
  conversations: Conversations,
  conversationId: string,
): Promise<Conversation | undefined> {
  try {
    return await conversations.open(conversationId);
  } catch (cause) {
    if (cause instanceof HoldfastError && cause.code === "not_found") return undefined;
    throw cause;
  }
}

async function begin(conversations: Conversations, names: ChildNames, asked: Asked): Promise<Turn> {
  const parent = conversations.turnOf(asked.run.idempotencyKey);
  const conversation = await conversations.begin({
    conversationId: names.conversationId,
    title: asked.args.description,
    model: asked.args.model,
    parentId: parent?.conversationId ?? asked.run.idempotencyKey,
    subagentDepth: asked.depth,
  });
  return start(conversation, conversations, names, asked);
}

async function start(
  conversation: Conversation,
  conversations: Conversations,
  { idempotencyKey }: ChildNames,
  asked: Asked,
): Promise<Turn> {
  const text = await promptOf(asked.args.prompt, asked.run);
  return conversation.send({ text }, { idempotencyKey, tools: offered(conversations.tools, asked) });
}

function offered(all: OfferedTools, { args, depth, limit }: Asked): OfferedTools {
  const tools = withinOffer(all, limit);
  if (args.readOnly) return readOnlyTools(tools);
  if (depth < LIMITS.subagentDepthMax) return tools;
  return { ...tools, kinds: tools.kinds.filter((kind) => kind !== ExecKind.SUBAGENT) };
}

async function promptOf(prompt: Content | undefined, run: ToolRun): Promise<string> {
  const blobId = blobIn(prompt);
  const bytes = blobId === undefined ? bytesIn(prompt) : await run.download(blobId);
  return new TextDecoder().decode(bytes);
}

/** Stays with a child until it ends: tells of its progress, and passes an abort on. */
async function ending(
  child: Turn | TurnEnd,
  exec: ExecRequest,
  run: ToolRun,
  options: SubagentOptions,
): Promise<TurnEnd> {
  return child instanceof Turn ? accompany(child, exec, run, options) : child;
}

async function accompany(
  turn: Turn,
  exec: ExecRequest,
  run: ToolRun,
  { onChild }: SubagentOptions,
): Promise<TurnEnd> {
  const abort = (): void => {
    if (!isLeft(run.signal)) void turn.abort().catch(() => undefined);
  };
  const unwatch = turn.watch((_, heard) => {
    const text = heard === undefined ? undefined : progressLine(heard.message);
    // What is not said in time says nothing new.
    if (text !== undefined)
      run.say(encode(exec, { case: "progress", value: { text } })).catch(() => undefined);
  });
  onChild?.(turn, exec);
  if (run.signal.aborted) abort();
  else run.signal.addEventListener("abort", abort, { once: true });
  try {
    return await turn.ended;
  } finally {
    unwatch();
    run.signal.removeEventListener("abort", abort);
  }
}

/** The parent is not aborted, it is only left: it will ask for its child again. */
function isLeft({ reason }: AbortSignal): boolean {
  return reason instanceof HoldfastError && reason.code === "unavailable";
}

type Result = NonNullable<MessageInitShape<typeof SubagentResultSchema>["result"]>;

async function resultOf(end: TurnEnd, names: ChildNames, run: ToolRun): Promise<Result> {
  switch (end.reason) {
    case "completed":
      return {
        case: "success",
        value: { ...names, text: await sentContent(new TextEncoder().encode(end.text), run) },
      };
    case "aborted":
      return { case: "aborted", value: { detail: withText("the subagent was stopped", end.text) } };
    case "failed":
      return {
        case: "error",
        value: { message: withText(end.failure?.message ?? "the subagent failed", end.text) },
      };
    case "lost":
    case "left": {
      const why = end.error?.message ?? "its stream is gone";
      return { case: "unknown", value: { detail: `how the subagent ended is not known: ${why}` } };
    }
  }
}

/** What it had said by then is worth knowing. */
function withText(what: string, text: string): string {
  return text === "" ? what : `${what}; it had said: ${lastChars(text, LIMITS.messageCharsMax)}`;
}

function encode({ id, execId, toolCallId }: ExecRequest, result: Result): Uint8Array {
  const value = {
    id,
    execId,
    toolCallId,
    message: { case: "subagentResult" as const, value: { result } },
  };
  return encodeClient({ case: "execClientMessage", value });
}
