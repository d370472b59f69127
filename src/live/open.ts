/**
 * All conversations of a page with its server: opened once, shared by everything that shows them.
 *
 * Nothing is opened before it is needed, so a page that is rendered on a server may make one too.
 */
import { Conversations } from "../client/agent/conversations.ts";
import type { ConversationRecord } from "../client/agent/conversation-store.ts";
import type { BrowserClient } from "../client/browser/browser-client.ts";
import { openClient } from "../client/browser/open-client.ts";
import type { BrowserClientOptions } from "../client/browser/options.ts";
import type { Channel } from "../client/browser/platform.ts";
import { storesOf } from "../client/browser/stores-of.ts";
import { thisBrowser } from "../client/browser/this-browser.ts";
import { toolRunner } from "../client/tool-runner.ts";
import type { Tool } from "../tools/tool.ts";
import { LiveConversation } from "./conversation.ts";
import { pageTools } from "./page-tools.ts";

export interface PageOptions extends Omit<BrowserClientOptions, "tools"> {
  /** What the model may call in this page, by name; made by `tool`. */
  readonly tools?: Readonly<Record<string, Tool>> | undefined;
  /** True when a person answers the agent's questions (`questions`). Default: false, and the agent cannot ask. */
  readonly answersQuestions?: boolean | undefined;
}

interface Opened {
  readonly client: BrowserClient;
  readonly conversations: Conversations;
  readonly tabs: Channel;
}

export class LiveConversations {
  readonly #options: PageOptions;
  readonly #tools: ReturnType<typeof pageTools>;
  readonly #known = new Map<string, LiveConversation>();
  #opened: Promise<Opened> | undefined;

  constructor(options: PageOptions = {}) {
    this.#options = options;
    this.#tools = pageTools({
      tools: options.tools ?? {},
      conversationOf: async (idempotencyKey) =>
        (await (await this.#open()).conversations.underWay(idempotencyKey))?.conversationId ?? "",
    });
  }

  /** The conversation of that id: as it was left, or a new one. Ids are your own: at most 128 bytes of visible ASCII. */
  conversation(id: string): LiveConversation {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const { approvals } = this.#tools;
    const parts = {
      // Opened when it is asked for.
      get opened() {
        return open();
      },
      approvals,
      begun: (conversationId: string) => void this.#tell(conversationId),
      wanted: (conversationId: string) => void this.#tell(`${WANTED}${conversationId}`),
    };
    const open = (): Promise<Opened> => this.#open();
    const conversation = new LiveConversation(id, parts);
    this.#known.set(id, conversation);
    return conversation;
  }

  /** Those that this browser keeps, the newest first. */
  async list(): Promise<readonly ConversationRecord[]> {
    return (await this.#open()).conversations.list();
  }

  /** The client below, for streams of your own. */
  async client(): Promise<BrowserClient> {
    return (await this.#open()).client;
  }

  /** Leaves all turns, which continue at the server. */
  async close(): Promise<void> {
    const opened = await this.#opened;
    opened?.tabs.close();
    await opened?.client.close();
  }

  async #tell(news: string): Promise<void> {
    (await this.#open()).tabs.post(news);
  }

  #open(): Promise<Opened> {
    this.#opened ??= this.#openNow().catch((cause: unknown) => {
      this.#opened = undefined;
      throw cause;
    });
    return this.#opened;
  }

  async #openNow(): Promise<Opened> {
    const { tools: _, answersQuestions = false, ...options } = this.#options;
    const { kinds, definitions, tools } = this.#tools;
    const client = await openClient({ ...options, tools: toolRunner(tools) });
    const conversations = new Conversations({
      client,
      ...storesOf(client),
      tools: { kinds, definitions, answersQuestions },
      // The page shows it, and answers when its user does.
      ...(answersQuestions ? { onQuery: async () => undefined } : {}),
      onBug: options.onBug,
    });
    const place = `${options.database ?? ""} ${options.url ?? ""}`;
    const tabs = thisBrowser().openChannel(`holdfast conversations ${place}`, (heard) => {
      if (typeof heard !== "string") return;
      if (heard.startsWith(WANTED)) this.#known.get(heard.slice(WANTED.length))?.wanted();
      else this.#known.get(heard)?.heard();
    });
    return { client, conversations, tabs };
  }
}

/** Before the id of a conversation whose turn another tab wants to write to; no id has a space. */
const WANTED = "wanted ";
