/**
 * A client of a Holdfast server for a program: conversations by their names, and tools that are given once.
 *
 * It stands on `openConversations`, as `holdfast chat` does: everything is journaled under `.holdfast/` of the working directory, so a program that dies resumes where
 * it was when it is started again.
 */
import type { NodeClient } from "../client-node/open-client.ts";
import { DEFAULT_URL, type NodeClientOptions } from "../client-node/options.ts";
import type { ConversationRecord, Conversations, Turn } from "../client/index.ts";
import { callable, checked, whole } from "../protocol/checked.ts";
import { HoldfastError } from "../protocol/errors.ts";
import * as z from "../protocol/rules.ts";
import { type ConversationOptions, NamedConversation } from "./named-conversation.ts";
import { openConversations, type OpenConversations } from "./open-conversations.ts";
import { type Approve, programTools } from "./program-tools.ts";
import { type AnswerQuestion, answersOf } from "./questions.ts";
import { reachServer } from "./reach-server.ts";
import type { Tool } from "../tools/tool.ts";

export interface ConnectOptions extends Omit<NodeClientOptions, "url" | "tools"> {
  /** What the model may call, by name; made by `tool`. */
  readonly tools?: Readonly<Record<string, Tool>> | undefined;
  /** Asked before a tool with `needsApproval` runs. Default: such a tool does not run. */
  readonly approve?: Approve | undefined;
  /** Asked what the agent wants to know. Default: the agent learns that no user can be asked. */
  readonly answer?: AnswerQuestion | undefined;
  /** How long a server that does not answer is waited for. 0 = it is not looked for at all. Default: 10 s. */
  readonly patienceMs?: number | undefined;
}

/** Longer than a server takes to start again. */
const PATIENCE_MS = 10_000;

const OPTIONS = z.object({
  tools: z.optional(z.custom<ConnectOptions["tools"]>()),
  approve: z.optional(callable<Approve>()),
  answer: z.optional(callable<AnswerQuestion>()),
  patienceMs: z.optional(whole(0)),
});

export class Holdfast {
  /** The streams below. */
  readonly client: NodeClient;
  readonly #opened: OpenConversations;
  readonly #conversations: Conversations;

  constructor(opened: OpenConversations) {
    this.client = opened.client;
    this.#opened = opened;
    this.#conversations = opened.conversations;
  }

  /** The conversation of that name: as it was left, or a new one. Names are your own: at most 128 bytes of visible ASCII. */
  conversation(name: string, options: ConversationOptions = {}): NamedConversation {
    return new NamedConversation(this.#conversations, name, options);
  }

  /** All conversations that are kept here, the newest first. */
  list(): Promise<readonly ConversationRecord[]> {
    return this.#conversations.list();
  }

  /** Resumes every turn that a crash has cut off and whose tools this program has. */
  async resume(): Promise<readonly Turn[]> {
    const has = new Set(this.#conversations.tools.definitions.map(({ name }) => name));
    const turns: Turn[] = [];
    for (const { conversationId, turn } of await this.#conversations.list()) {
      // Another program's, such as a chat in the same directory.
      if (turn?.offered?.tools.every((name) => has.has(name)) !== true) continue;
      const resumed = await (await this.#conversations.open(conversationId)).resume();
      if (resumed !== undefined) turns.push(resumed);
    }
    return turns;
  }

  /** Leaves all turns, which continue at the server and can be resumed. */
  close(): Promise<void> {
    return this.#opened.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** `url`: default `HOLDFAST_URL`, else this machine, port 4600. */
export async function connect(url?: string, options: ConnectOptions = {}): Promise<Holdfast> {
  if (typeof url === "object")
    throw new HoldfastError("invalid_argument", "connect takes the address first: connect(url, options)");
  const { tools = {}, approve, answer, patienceMs = PATIENCE_MS, ...clientOptions } = options;
  checked(OPTIONS, { tools, approve, answer, patienceMs });
  const opened = await openConversations({
    client: { ...clientOptions, url },
    tools: (conversations) =>
      programTools({
        tools,
        approve,
        conversationOf: async (idempotencyKey) =>
          (await conversations().underWay(idempotencyKey))?.conversationId ?? "",
      }),
    onQuery: answersOf({ answer, approve }),
    answersQuestions: answer !== undefined,
  });
  try {
    const address = url ?? process.env["HOLDFAST_URL"] ?? DEFAULT_URL;
    if (patienceMs > 0) await reachServer(opened.client, address, patienceMs);
  } catch (cause) {
    await opened.close();
    throw cause;
  }
  return new Holdfast(opened);
}
