/**
 * Blobs beside the streams: the client's half of `BlobService` and the server's are the production ones, and between them the bytes of a call
 * travel in pieces, any of which may be the last before the call is cut.
 *
 * Checked: the store is never given other bytes than those that the id names (E5), and a put that resolved can be fetched for as long as its
 * stream is there (A3).
 */
import { createHash } from "node:crypto";
import type { ClientStream } from "../../src/client/index.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { newServerCounters } from "../../src/server/counters.ts";
import { BLOB_DEFAULTS } from "../../src/server/http/blob-limits.ts";
import { blobEndpoints } from "../../src/server/http/blob-endpoints.ts";
import { byteBudget } from "../../src/server/http/byte-budget.ts";
import { newHttpCounters } from "../../src/server/http/http-counters.ts";
import type { StreamBlobs } from "../../src/server/stream-blobs.ts";
import type { BlobStore } from "../../src/store/blob-store.ts";
import { memoryBlobStore } from "../../src/store/memory-blob-store.ts";
import { type BlobRequest, blobCallsOver } from "../../src/transport/connect/blob-call.ts";
import { callHeaders } from "../../src/transport/connect/client-call.ts";
import { EnvelopeParser, envelopes } from "../../src/transport/connect/envelopes.ts";
import { readEndOfStream } from "../../src/transport/connect/errors.ts";
import type { Exchange, ExchangeListener } from "../../src/transport/node/exchange.ts";
import type { BlobCalls } from "../../src/transport/transport.ts";
import { fail } from "./log-checks.ts";
import type { SimProcess, World } from "./world/index.ts";

const PIECE_BYTES = 1_024;
const CUT = 0.05;
const MESSAGE_BYTES_MAX = 512 * 1024;

/** The blobs of all nodes lie in one place, which survives them; a put is whole or not at all. */
export function blobsOfWorld(world: World): BlobStore {
  return checkedBlobs(world, memoryBlobStore({ now: () => world.nowMs }));
}

export function checkedBlobs(world: World, store: BlobStore): BlobStore {
  return {
    ...store,
    put: (name, bytes, sealer) => {
      const isWhole = createHash("sha256").update(bytes).digest("hex") === name.id;
      if (!isWhole) world.fail(new Error("E5: a part of a blob was taken for the whole"));
      return store.put(name, bytes, sealer);
    },
  };
}

/** What was put is fetched again, as long as the stream is there. */
export async function putAndGet(
  world: World,
  stream: Pick<ClientStream, "putBlob" | "getBlob">,
  bytes: Uint8Array,
  isThere: () => boolean,
): Promise<void> {
  const cuts = world.counters.of("blob.put_cut");
  const id = await stream.putBlob(bytes);
  world.hit(world.counters.of("blob.put_cut") > cuts ? "blob.put_again" : "blob.put");
  const got = await stream.getBlob(id).catch((cause: unknown) => {
    const isMissing = cause instanceof HoldfastError && cause.code === "not_found";
    if (isMissing && isThere()) fail("A3", "a blob that was kept is not there");
    throw cause;
  });
  world.hit("blob.got");
  if (Buffer.compare(Buffer.from(got), Buffer.from(bytes)) !== 0) fail("E5", "a blob is not what was put");
}

/** Where a call goes: a node that lives, with its blobs. */
export type BlobTarget = () => { readonly process: SimProcess; readonly blobs: StreamBlobs } | undefined;

/** The production client's calls from one life of a device. */
export function simulatedBlobCalls(client: SimProcess, principal: string, target: BlobTarget): BlobCalls {
  const { world } = client;
  const random = world.random.fork(`uploads of ${client.name} ${client.incarnation}`);
  const endpoints = (blobs: StreamBlobs): ReturnType<typeof blobEndpoints> =>
    blobEndpoints({
      blobs,
      memory: byteBudget(BLOB_DEFAULTS.heldBytesMax, BLOB_DEFAULTS.waitingMax),
      limits: BLOB_DEFAULTS,
      http: newHttpCounters(),
      counters: newServerCounters(),
      onBug: (bug) => world.fail(bug),
    });
  return blobCallsOver((request, received) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const found = target();
    const lost = (): void => reject(new HoldfastError("connection_lost", "the call broke"));
    if (found === undefined) {
      world.enqueue(5, lost, undefined, client);
      return promise;
    }
    const parser = new EnvelopeParser(MESSAGE_BYTES_MAX);
    const answered = (bytes: Uint8Array): void => {
      parser.push(bytes);
      for (let next = parser.next(); next !== undefined; next = parser.next()) {
        const error = next.isEnd ? readEndOfStream(next.message) : undefined;
        if (error !== undefined) reject(error);
        else if (next.isEnd) resolve();
        else received(next.message);
      }
    };
    // One behind the other, whatever each takes.
    const underWay: Uint8Array[] = [];
    const arrive = (): void => {
      const bytes = underWay.shift();
      if (bytes !== undefined) answered(bytes);
    };
    const exchange = new SimExchange(found.process, request, {
      answered: (bytes) => {
        underWay.push(bytes);
        world.enqueue(random.int(20), arrive, undefined, client);
      },
      broken: lost,
      delayMs: () => random.int(20),
      isCut: () => random.chance(CUT),
    });
    endpoints(found.blobs)[request.method === "Put" ? "blob_put" : "blob_get"](exchange, { principal });
    return promise;
  });
}

interface Way {
  readonly answered: (bytes: Uint8Array) => void;
  readonly broken: () => void;
  readonly delayMs: () => number;
  readonly isCut: () => boolean;
}

/** One call as its server sees it. */
class SimExchange implements Exchange {
  readonly httpVersion = 2;
  readonly isSecure = false;
  readonly method = "POST";
  readonly path = "";
  readonly query = "";
  readonly host = "";
  readonly remoteAddress = "";
  hasResponded = false;
  readonly #process: SimProcess;
  readonly #way: Way;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #pieces: readonly Uint8Array[];
  readonly #isPut: boolean;
  #sent = 0;
  #isPaused = false;
  #isOver = false;
  #listener: ExchangeListener | undefined;

  constructor(process: SimProcess, { meta, messages, method }: BlobRequest, way: Way) {
    this.#process = process;
    this.#way = way;
    this.#isPut = method === "Put";
    this.#headers = { ...callHeaders(meta, undefined), "content-type": "application/connect+proto" };
    this.#pieces = [...messages].flatMap((message) => piecesOf(envelopes([message])));
    process.onCrash(() => this.#break());
  }

  header(name: string): string | undefined {
    return this.#headers[name];
  }

  listen(listener: ExchangeListener): void {
    this.#listener = listener;
    this.#next();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#next();
  }

  respond(): void {
    this.hasResponded = true;
  }

  write(bytes: Uint8Array): number {
    if (!this.#isOver) this.#way.answered(bytes);
    return 0;
  }

  end(last?: Uint8Array): void {
    if (this.#isOver) return;
    if (last !== undefined) this.#way.answered(last);
    this.#close(true);
  }

  destroy(): void {
    this.#break();
  }

  #next(): void {
    this.#process.world.enqueue(this.#way.delayMs(), () => this.#arrive(), undefined, this.#process);
  }

  #arrive(): void {
    if (this.#isOver || this.#isPaused) return;
    const piece = this.#pieces[this.#sent++];
    if (this.#way.isCut()) {
      if (this.#isPut && this.#sent > 1) this.#process.world.hit("blob.put_cut");
      return this.#break();
    }
    if (piece !== undefined) {
      this.#listener?.received(piece);
      if (!this.#isPaused) this.#next();
    } else if (this.#sent === this.#pieces.length + 1) this.#listener?.ended();
  }

  #break(): void {
    if (this.#isOver) return;
    this.#close(false);
    this.#way.broken();
  }

  #close(isWhole: boolean): void {
    this.#isOver = true;
    this.#listener?.closed(isWhole);
  }
}

function piecesOf(bytes: Uint8Array): readonly Uint8Array[] {
  const count = Math.ceil(bytes.length / PIECE_BYTES);
  return Array.from({ length: count }, (_, at) => bytes.slice(at * PIECE_BYTES, (at + 1) * PIECE_BYTES));
}
