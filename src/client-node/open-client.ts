/**
 * The front door for Node: settings in, a client with journals, keys and a transport out.
 */
import { randomBytes } from "node:crypto";
import {
  Client,
  type ClientOptions,
  type ClientStores,
  type ClientStream,
  inspect,
  memoryStores,
  type ResumeReport,
  toolRunner,
} from "../client/index.ts";
import { readJournal } from "../client/journal-file.ts";
import { given } from "../protocol/given.ts";
import { KEY_BYTES } from "../sealing/index.ts";
import { nodeSealing } from "../sealing/node.ts";
import { fetchConnect } from "../transport/fetch-transport.ts";
import { http2Connect } from "../transport/node/http2-client.ts";
import type { BlobCalls, Connect } from "../transport/transport.ts";
import { type Journals, openJournals } from "./journals.ts";
import { type NodeClientOptions, settle, type Settings } from "./options.ts";
import { onNetworkChange } from "./wake-ups.ts";

/** A client that owns its transport and its journals. */
export class NodeClient extends Client {
  /** Where the journals lie; undefined with persistence off. */
  readonly directory: string | undefined;
  /** For `storesOf(client)`. In memory with persistence off. */
  readonly stores: ClientStores;
  readonly #journals: Journals | undefined;
  readonly #release: () => Promise<void>;
  #closing: Promise<void> | undefined;

  constructor(options: ClientOptions, journals: Journals | undefined, release: () => Promise<void>) {
    super(options);
    this.directory = journals?.directory;
    this.stores = journals?.stores ?? memoryStores();
    this.#journals = journals;
    this.#release = release;
  }

  /** As in `Client`; open streams of another server are kept, since this one would not know them. */
  override async resumeAll(onResumed?: (stream: ClientStream) => void): Promise<ResumeReport> {
    const foreign = (await this.#journals?.store.listForeign()) ?? [];
    const report = await super.resumeAll(onResumed);
    const [cleared, kept] = [[...report.cleared], [...report.kept]];
    for (const { idempotencyKey, server } of foreign) {
      if (await this.#clearIfOver(idempotencyKey)) cleared.push(idempotencyKey);
      else kept.push({ idempotencyKey, reason: foreignReason(server) });
    }
    return { ...report, cleared, kept };
  }

  /** No server is needed to know that a stream has ended. One that has not is only looked at: a claim would move it here. */
  async #clearIfOver(idempotencyKey: string): Promise<boolean> {
    if (this.#journals === undefined) return false;
    try {
      const { store, sealer } = this.#journals;
      const { journal } = await readJournal(store, sealer, idempotencyKey);
      if (inspect(journal).kind !== "clear") return false;
      await this.forget(idempotencyKey);
      return true;
    } catch {
      // Damaged, or in another process's hands: kept.
      return false;
    }
  }

  /** Leaves all streams, then gives back connections, database and locks. The streams can be resumed. */
  override close(): Promise<void> {
    this.#closing ??= super.close().then(this.#release);
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Where this client keeps its conversations, for `new Conversations({ client, ...storesOf(client) })`. */
export function storesOf({ stores }: NodeClient): ClientStores {
  return stores;
}

export async function openClient(options: NodeClientOptions = {}): Promise<NodeClient> {
  const settings = settle(options);
  const { tools, onStall, resumesMax } = options;
  const { persistence, stream, credentials, onBug } = settings;
  const sealing = nodeSealing();
  // A transport of its own may lead anywhere, unless the caller says where.
  const isNamed = options.connect === undefined || options.url !== undefined;
  const server = isNamed ? addressOf(settings.url) : "";
  const journals = persistence ? await openJournals({ ...settings, server, sealing }) : undefined;
  const transport = transportOf(options, settings);
  const clientOptions: ClientOptions = {
    connect: transport.connect,
    blobs: transport.blobs,
    sealing,
    // Without journals nothing outlives this process, so neither need the key.
    homeKey: journals?.homeKey ?? settings.homeKey ?? new Uint8Array(randomBytes(KEY_BYTES)),
    credentials,
    stream,
    onBug,
    ...given({ tools: tools && toolRunner(tools), onStall, resumesMax }),
    ...given({ journals: journals?.store, writerLocks: journals?.writerLocks }),
  };
  const client = new NodeClient(clientOptions, journals, () => {
    unwatch();
    return releaseAll(transport, journals);
  });
  const unwatch = onNetworkChange(() => client.wake());
  return client;
}

function foreignReason(server: string): string {
  return `its stream is at ${server}: continue it there, or resume it by name if that server has moved here`;
}

/** One spelling per server. */
function addressOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname.replace(/\/+$/, "");
}

interface Transport {
  readonly connect: Connect;
  readonly blobs: BlobCalls | undefined;
  close(): void | Promise<void>;
}

function transportOf(own: NodeClientOptions, { url, transport, ca }: Settings): Transport {
  if (own.connect !== undefined) return { connect: own.connect, blobs: own.blobs, close: () => undefined };
  if (transport === "fetch") return fetchConnect({ url });
  return http2Connect({ url, ...given({ ca }) });
}

async function releaseAll(transport: Transport, journals: Journals | undefined): Promise<void> {
  await transport.close();
  await journals?.close();
}
