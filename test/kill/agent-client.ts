/**
 * A client of an agent that will be killed: one conversation, the production tools, and a function tool that appends
 * a line to a file.
 *
 * Started again it goes on with what was cut off. It tells its parent what it sees, and exits when all turns are over.
 */
import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { fromBinary } from "../../src/protocol/message.ts";
import {
  type Conversation,
  Conversations,
  HoldfastError,
  openClient,
  storesOf,
  STREAM_DEFAULTS,
  type Turn,
} from "../../src/client-node/index.ts";
import { decodeChatMessage } from "../../src/protocol/chat-message.ts";
import type { ClientFrame } from "../../src/protocol/frames.ts";
import { allIds, countOf, idsIn, messageIds, turnIds } from "../../src/protocol/id-pages.ts";
import { AgentClientMessageSchema } from "../../src/protocol/messages.ts";
import { createTools, parseToolsConfig } from "../../src/tools/index.ts";
import { http2Connect } from "../../src/transport/node/http2-client.ts";
import type { Connect } from "../../src/transport/transport.ts";
import { readAgentSetup, type Told } from "./agent-setup.ts";

const CONVERSATION = "conversation";

const setup = readAgentSetup();
const finishing = new AbortController();
let approve: () => void = () => undefined;
process.on("message", (order) => {
  if (order === "finish") finishing.abort();
  if (order === "approve") approve();
});
process.on("disconnect", () => process.exit(1));

function tell(told: Told): void {
  process.send?.(told);
}

function bug(what: unknown): void {
  tell({ kind: "bug", what: what instanceof Error ? (what.stack ?? what.message) : String(what) });
}

const policy = setup.asks ? "ask" : "allow";
const tools = await createTools({
  workspace: setup.workspace,
  stateDirectory: join(setup.directory, "tools"),
  config: parseToolsConfig({ approvals: { shell: policy, write: policy }, shell: { sandbox: "off" } }),
  ask: ({ execId }) => {
    const { promise, resolve } = Promise.withResolvers<{ readonly answer: "once" }>();
    approve = () => resolve({ answer: "once" });
    tell({ kind: "asked", execId });
    return promise;
  },
  functions: {
    append: {
      description: "Appends a line to a file, and waits for ever when it is told so.",
      parameters: { type: "object", properties: { file: { type: "string" }, line: { type: "string" } } },
      policy: "allow",
      run: async (args) => append(args),
    },
    mark: {
      description: "The same, but it may be done twice.",
      parameters: { type: "object", properties: { file: { type: "string" }, line: { type: "string" } } },
      repeatable: true,
      policy: "allow",
      run: async (args) => append(args),
    },
  },
});

/** With `wait` it does its work and never says so, in the first life that does it. */
async function append(args: unknown): Promise<string> {
  const { file, line, wait } = fieldsOf(args);
  const path = join(setup.workspace, String(file));
  appendFileSync(path, `${String(line)}\n`);
  if (wait === true && process.env["HOLDFAST_FIRST_LIFE"] === "1") await new Promise(() => undefined);
  return "appended";
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** Tells of results as they leave. */
function watched(connect: Connect): Connect {
  return (meta, handler) => {
    const wire = connect(meta, handler);
    return {
      write: (frames) => {
        const waiting = wire.write(frames);
        for (const frame of frames) tellResult(frame);
        return waiting;
      },
      end: () => wire.end(),
    };
  };
}

function tellResult(frame: ClientFrame): void {
  if (frame.kind !== "chunk") return;
  const { message } = fromBinary(AgentClientMessageSchema, frame.body);
  if (message.case !== "execClientMessage" || message.value.message.case === undefined) return;
  const { result } = message.value.message.value;
  if (result.case === "started" || result.case === "output") return;
  const body = createHash("sha256").update(frame.body).digest("hex");
  tell({ kind: "result", execId: message.value.execId, seqno: frame.seqno, body });
}

const network = http2Connect({ url: setup.url });
const client = await openClient({
  scope: "application",
  apiKey: setup.apiKey,
  directory: setup.directory,
  homeKey: Buffer.from(setup.homeKey, "base64url"),
  connect: watched(network.connect),
  blobs: network.blobs,
  tools,
  stream: {
    retry: { ...STREAM_DEFAULTS.retry, baseMs: 20, capMs: 200, budget: { burst: 10_000, refillMs: 1 } },
  },
  onBug: bug,
});
const conversations = new Conversations({ client, ...storesOf(client), tools, onBug: bug });

async function follow(turn: Turn, isResumed: boolean): Promise<void> {
  const { idempotencyKey } = turn.stream;
  turn.watch((view) => {
    const text = view.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    tell({ kind: "text", text });
  });
  tell({ kind: "turn", idempotencyKey, isResumed });
  const { reason, failure, error } = await turn.ended;
  tell({ kind: "ended", reason, why: failure?.message ?? error?.message ?? "" });
}

async function opened(): Promise<Conversation> {
  try {
    return await conversations.open(CONVERSATION);
  } catch (cause) {
    if (!(cause instanceof HoldfastError) || cause.code !== "not_found") throw cause;
    return conversations.begin({ conversationId: CONVERSATION });
  }
}

async function keptMessages({ state }: Conversation) {
  const blobsOf = (ids: readonly Uint8Array[]): Promise<readonly (Uint8Array | undefined)[]> =>
    Promise.all(ids.map((id) => client.stores.blobs.get(Buffer.from(id).toString("hex"))));
  const entries = await allIds(messageIds(state), async (pages) =>
    (await blobsOf(pages)).map((page) => (page === undefined ? undefined : idsIn(page))),
  );
  const kept = await blobsOf(entries.map(({ id }) => id));
  return kept.flatMap((bytes) => (bytes === undefined ? [] : [decodeChatMessage(bytes)]));
}

const following: Promise<void>[] = [];
await conversations.resumeAll((turn) => following.push(follow(turn, true)));
await Promise.all(following);
const conversation = await opened();
for (;;) {
  const turn = countOf(turnIds(conversation.state));
  if (turn >= setup.turns || finishing.signal.aborted) break;
  await follow(await conversation.send({ text: setup.prompt.replaceAll("%", String(turn)) }), false);
}
tell({ kind: "over", messages: await keptMessages(conversation) });
await client.close();
await tools.close();
process.exit(0);
