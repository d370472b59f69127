/**
 * A user with a conversation: asks, waits for the answer, asks again; and starts the client again when it dies.
 *
 * The client is the production one, its conversations too; its journals, blobs and records are on simulated disks.
 */
import {
  Client,
  type ClientBlobStore,
  type Conversation,
  Conversations,
  type FullConversation,
  type Turn,
  type TurnEnd,
  toolRunner,
} from "../../src/client/index.ts";
import { type ChatMessage, decodeChatMessage } from "../../src/protocol/chat-message.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { PROMPTS } from "./agent-model.ts";
import { simulatedBlobs, simulatedRecords } from "./agent-stores.ts";
import { KINDS, type Workbench } from "./agent-workbench.ts";
import { fail } from "./log-checks.ts";
import { SimDisk, type SimNetwork, SimProcess, type World } from "./world/index.ts";

export interface UserContext {
  readonly world: World;
  readonly network: SimNetwork;
  readonly workbench: Workbench;
  readonly homeKey: Uint8Array;
  readonly principal: string;
  readonly server: string;
  /** How many of the prompts it says. */
  readonly turns: number;
}

/** The conversation as the client has it on its disk at the end. */
export interface KeptConversation {
  /** The messages that the next prompt would be made of. */
  readonly messages: readonly ChatMessage[];
  readonly full: FullConversation;
}

const CONVERSATION = "conversation";
const RESTART_MS = 1_000;

export class SimUser {
  process: SimProcess;
  /** How each turn ended that a life of the client saw the end of. */
  readonly ends: TurnEnd[] = [];
  /** Set once everything is asked and answered. */
  kept: KeptConversation | undefined;
  /** Told of each event that the client has taken; `count` over all turns. */
  onTaken: (count: number) => void = () => undefined;
  taken = 0;
  readonly #context: UserContext;
  readonly #disks: { readonly journals: SimDisk; readonly blobs: SimDisk; readonly records: SimDisk };

  constructor(context: UserContext) {
    const { world } = context;
    this.#context = context;
    this.process = new SimProcess(world, "client");
    this.#disks = {
      journals: new SimDisk(world, "journals"),
      blobs: new SimDisk(world, "blobs"),
      records: new SimDisk(world, "conversations"),
    };
    // Slower than the others: who does not wait for it is found out.
    this.#disks.blobs.faults.latencyMsMax = 120;
  }

  boot(): void {
    const { world } = this.#context;
    const process = this.process;
    process.onCrash(() =>
      world.enqueue(RESTART_MS, () => {
        this.process = process.restart();
        this.boot();
      }),
    );
    this.#live(process).catch((cause: unknown) => world.fail(cause));
  }

  async #live(process: SimProcess): Promise<void> {
    const conversations = this.#conversations(process);
    const { turns, strays, report } = await conversations.resumeAll((turn) => this.#watch(process, turn));
    for (const { reason } of report.kept) fail("A5", `a journal cannot be used: ${reason}`);
    if (strays.length > 0) fail("C4", "a stream goes on of which no conversation knows");
    for (const turn of turns) this.#over(await turn.ended);
    const conversation = await this.#open(conversations);
    for (;;) {
      const said = conversation.state?.turns.length ?? 0;
      const prompt = PROMPTS[said];
      if (prompt === undefined || said >= this.#context.turns) break;
      const turn = await conversation.send({ text: prompt });
      this.#watch(process, turn);
      this.#over(await turn.ended);
    }
    this.kept = await this.#keptOf(conversation, simulatedBlobs(this.#disks.blobs, process));
  }

  /** What the last checkpoint names is there, all the way down. */
  async #keptOf(conversation: Conversation, blobs: ClientBlobStore): Promise<KeptConversation> {
    const messages: ChatMessage[] = [];
    for (const id of conversation.state?.messages ?? []) {
      const bytes = await blobs.get(Buffer.from(id).toString("hex"));
      messages.push(decodeChatMessage(bytes ?? fail("C4", "a checkpoint names a message that is not kept")));
    }
    const full = await conversation.full();
    for (const turn of full.turns) {
      const items = turn.kind === "agent" ? [turn.userMessage, ...turn.steps] : [turn];
      if (items.some((item) => item?.kind !== "found")) fail("C4", "a part of a turn is not kept");
    }
    return { messages, full };
  }

  #conversations(process: SimProcess): Conversations {
    const { world, network, homeKey, principal, workbench, server } = this.#context;
    const { env } = process;
    const client = new Client({
      connect: network.connectFrom(process, () => server),
      sealing: nodeSealing({ randomBytes: (length) => env.randomBytes(length) }),
      homeKey,
      journals: this.#disks.journals.openJournalStore(process),
      environment: env,
      credentials: () => Promise.resolve(principal),
      tools: toolRunner(workbench.toolsOf(process)),
      onBug: (bug) => world.fail(bug),
    });
    return new Conversations({
      client,
      blobs: simulatedBlobs(this.#disks.blobs, process),
      records: simulatedRecords(this.#disks.records, process),
      tools: { kinds: KINDS, definitions: [] },
      split: { after: (delayMs, run) => env.after(delayMs, run) },
      onBug: (bug) => world.fail(bug),
      now: () => env.now(),
      newId: () => Buffer.from(env.randomBytes(16)).toString("hex"),
    });
  }

  async #open(conversations: Conversations): Promise<Conversation> {
    try {
      return await conversations.open(CONVERSATION);
    } catch (cause) {
      if (!(cause instanceof HoldfastError) || cause.code !== "not_found") throw cause;
      return conversations.begin({ conversationId: CONVERSATION });
    }
  }

  #watch(process: SimProcess, turn: Turn): void {
    turn.watch((_, heard) => {
      if (heard !== undefined && process.alive) this.onTaken(++this.taken);
    });
  }

  /** A turn whose beginning never reached the server is lost: the user says it again. */
  #over(end: TurnEnd): void {
    this.ends.push(end);
    if (end.reason !== "completed" && end.reason !== "lost") {
      fail("F1", `a turn ended as ${end.reason}: ${end.failure?.message ?? end.error?.message ?? ""}`);
    }
  }
}
