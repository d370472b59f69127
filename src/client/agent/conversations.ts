/**
 * All conversations of a client: begun, found again, resumed after a restart, cleared away.
 */
import { given } from "../../protocol/given.ts";
import type { MessageInitShape } from "../../protocol/message.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { EnvironmentSchema } from "../../protocol/messages.ts";
import { systemEnvironment } from "../../transport/environment.ts";
import { checkOwnName } from "../own-names.ts";
import type { ResumeReport } from "../resume-report.ts";
import type { ClientStream } from "../stream.ts";
import { type ClientBlobStore, putBytes } from "./blob-store.ts";
import type { ConversationClient, ConversationContext } from "./conversation-context.ts";
import type { ConversationRecord, ConversationStore } from "./conversation-store.ts";
import { Conversation } from "./conversation.ts";
import type { OnQuery } from "./turn.ts";
import { collectGarbage, GRACE_MS, type GarbageReport } from "./garbage.ts";
import { notOffered } from "./offered-tools.ts";
import type { OfferedTools } from "./run-request.ts";
import type { SplitOptions, SubStreamName } from "./split-stream.ts";
import type { Turn } from "./turn.ts";

export interface ConversationsOptions {
  readonly client: ConversationClient;
  /** `storesOf(client)` has both. */
  readonly blobs: ClientBlobStore;
  readonly records: ConversationStore;
  /** Where the client is, for the system prompt. */
  readonly environment?: MessageInitShape<typeof EnvironmentSchema> | undefined;
  /** What the client can carry out; the client itself has the tools. Default: nothing. */
  readonly tools?: OfferedTools | undefined;
  /** Asks the user the questions of a turn. Default: they are answered as unanswerable. */
  readonly onQuery?: OnQuery | undefined;
  /** A reader of a sub-stream was too slow and has been cut. */
  readonly onSlow?: ((name: SubStreamName) => void) | undefined;
  /** Bounds of the sub-streams. */
  readonly split?: SplitOptions | undefined;
  /** Something in this client's own code, or a listener's, went wrong. */
  readonly onBug?: ((bug: unknown) => void) | undefined;
  readonly now?: (() => number) | undefined;
  /** Names for conversations, messages and streams that are never drawn twice. Default: 32 random hexadecimal digits. */
  readonly newId?: (() => string) | undefined;
}

export interface BeginOptions {
  /** As the server lists it; default: the server's. */
  readonly model?: string;
  /** Default: the beginning of the first message. */
  readonly title?: string;
  /** Instead of the server's own. */
  readonly systemPrompt?: string;
  /** A name of your own, at most 128 bytes of visible ASCII; drawn at random when absent. */
  readonly conversationId?: string;
  /** For a subagent: the conversation that asked for it, and how deep it stands. */
  readonly parentId?: string;
  readonly subagentDepth?: number;
}

export interface ResumedTurns {
  readonly turns: readonly Turn[];
  /** Streams of this client that no conversation knows: the caller has to read them. */
  readonly strays: readonly ClientStream[];
  readonly report: ResumeReport;
}

export class Conversations {
  readonly #context: ConversationContext;
  readonly #known = new Map<string, Conversation>();

  constructor(options: ConversationsOptions) {
    const { client, blobs, records, environment, onQuery, onSlow } = options;
    this.#context = {
      client,
      blobs,
      records,
      environment,
      tools: options.tools ?? { kinds: [], definitions: [] },
      onQuery,
      split: { ...options.split, ...given({ onSlow }) },
      onBug: options.onBug ?? (() => undefined),
      now: options.now ?? Date.now,
      newId: options.newId ?? (() => hexOf(systemEnvironment().randomBytes(16))),
      turns: new Map(),
    };
    client.limitTools(async (exec, idempotencyKey) =>
      notOffered(exec, (await this.underWay(idempotencyKey))?.turn?.offered),
    );
  }

  /** The conversation whose turn this stream carries; undefined when none of this client does. */
  async underWay(idempotencyKey: string): Promise<ConversationRecord | undefined> {
    const isIt = ({ turn }: ConversationRecord): boolean => turn?.idempotencyKey === idempotencyKey;
    const known = [...this.#known.values()].map(({ record }) => record).find(isIt);
    return known ?? (await this.#context.records.list()).find(isIt);
  }

  /** What the client offers to carry out. */
  get tools(): OfferedTools {
    return this.#context.tools;
  }

  /** A new conversation. Nothing of it is kept before its first turn. */
  async begin(options: BeginOptions = {}): Promise<Conversation> {
    const { blobs, records, now, newId } = this.#context;
    const { model = "", title = "", systemPrompt, parentId, subagentDepth } = options;
    const conversationId = options.conversationId ?? newId();
    checkOwnName(conversationId, "a conversation id");
    if ((await records.get(conversationId)) !== undefined) {
      throw new HoldfastError("already_exists", `conversation ${conversationId} is there already: open it`);
    }
    const prompt = new TextEncoder().encode(systemPrompt ?? "");
    const systemPromptBlobId = prompt.length === 0 ? undefined : await putBytes(blobs, prompt);
    return this.#conversationOf({
      conversationId,
      title,
      model,
      createdMs: now(),
      updatedMs: now(),
      version: 0,
      ...given({ systemPromptBlobId, parentId, subagentDepth }),
    });
  }

  /** The conversation of that id: as it was left, or begun now. */
  async named(
    conversationId: string,
    options: Omit<BeginOptions, "conversationId"> = {},
  ): Promise<Conversation> {
    const isThere = (await this.#context.records.get(conversationId)) !== undefined;
    const known = this.#known.get(conversationId);
    if (isThere) return this.open(conversationId);
    return known ?? this.begin({ ...options, conversationId });
  }

  /** Rejects with `not_found` when there is none of that id. */
  async open(conversationId: string): Promise<Conversation> {
    const known = this.#known.get(conversationId);
    if (known !== undefined) {
      await known.refresh();
      return known;
    }
    const record = await this.#context.records.get(conversationId);
    if (record === undefined) {
      throw new HoldfastError(
        "not_found",
        `there is no conversation ${conversationId} here: list shows those there are`,
      );
    }
    return this.#conversationOf(record);
  }

  /** The newest first, without those of subagents. */
  async list(): Promise<readonly ConversationRecord[]> {
    const records = await this.#context.records.list();
    return records
      .filter(({ parentId }) => parentId === undefined)
      .toSorted((a, b) => b.updatedMs - a.updatedMs);
  }

  /** Forgets a conversation and those of its subagents; `collectGarbage` gives their space back. */
  async remove(conversationId: string): Promise<void> {
    if (this.#known.get(conversationId)?.turn !== undefined) {
      throw new HoldfastError("busy", `conversation ${conversationId} has a turn under way: abort it first`);
    }
    const { records } = this.#context;
    const children = (await records.list()).filter(({ parentId }) => parentId === conversationId);
    await records.remove(conversationId);
    this.#known.delete(conversationId);
    for (const child of children) await this.remove(child.conversationId);
  }

  /** Deletes the blobs that no conversation reaches. */
  collectGarbage({ graceMs = GRACE_MS }: { readonly graceMs?: number } = {}): Promise<GarbageReport> {
    const { blobs, records, now } = this.#context;
    return collectGarbage({ blobs, records, nowMs: now(), graceMs });
  }

  /** A turn that this client follows now, by the idempotency key of its stream. */
  turnOf(idempotencyKey: string): Turn | undefined {
    return this.#context.turns.get(idempotencyKey);
  }

  /** At start: resumes every turn that was cut off. `onTurn` gets each at once; one that is too old ends as `left`, and can be resumed by its conversation. */
  async resumeAll(onTurn: (turn: Turn) => void = () => undefined): Promise<ResumedTurns> {
    const { client, records } = this.#context;
    const open = new Map<string, ConversationRecord>();
    for (const record of await records.list()) {
      if (record.turn !== undefined) open.set(record.turn.idempotencyKey, record);
    }
    const turns: Turn[] = [];
    const strays: ClientStream[] = [];
    const report = await client.resumeAll((stream) => {
      const record = open.get(stream.idempotencyKey);
      if (record === undefined) {
        strays.push(stream);
        return;
      }
      open.delete(stream.idempotencyKey);
      const turn = this.#conversationOf(record).follow(stream, { keeps: true });
      turns.push(turn);
      onTurn(turn);
    });
    const others = new Set([...report.elsewhere, ...report.kept].map(({ idempotencyKey }) => idempotencyKey));
    for (const [idempotencyKey, record] of open) {
      if (others.has(idempotencyKey)) continue;
      // Its journal has ended or is gone: what was not kept of it is read once more.
      const hasEnded = report.cleared.includes(idempotencyKey);
      const turn = await this.#conversationOf(record).resume({ hasEnded });
      if (turn === undefined || turns.includes(turn)) continue;
      turns.push(turn);
      onTurn(turn);
    }
    // Handed over at once, and then found too old: left alone, as the report says.
    const isOn = ({ stream }: { readonly stream: ClientStream }): boolean => !stream.status.isSkipped;
    return {
      turns: turns.filter(isOn),
      strays: strays.filter((stream) => isOn({ stream })),
      report,
    };
  }

  #conversationOf(record: ConversationRecord): Conversation {
    const known = this.#known.get(record.conversationId);
    if (known !== undefined) {
      known.adopt(record);
      return known;
    }
    const conversation = new Conversation(this.#context, record);
    this.#known.set(record.conversationId, conversation);
    return conversation;
  }
}
