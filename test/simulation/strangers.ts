/**
 * Those who should get nothing: another principal, a wrong stream key, a writer that says something
 * else under the same seqno, and the honest client that comes too late and must hear "gone" (A2, A7,
 * D4, E1, E2).
 */
import { PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "../../src/protocol/frames.ts";
import type { ClientMeta, Wire } from "../../src/transport/transport.ts";
import type { Ledger } from "./ledger.ts";
import type { Truth } from "./truth.ts";
import { type Random, type SimNetwork, SimProcess, type World } from "./world/index.ts";

export interface StrangersContext {
  readonly world: World;
  readonly network: SimNetwork;
  readonly ledger: Ledger;
  readonly truth: Truth;
  readonly principal: string;
  readonly streamKeyOf: (idempotencyKey: string) => Uint8Array;
  readonly pickNode: () => string;
}

export class Strangers {
  readonly #context: StrangersContext;
  readonly #process: SimProcess;

  constructor(context: StrangersContext) {
    this.#context = context;
    this.#process = new SimProcess(context.world, "stranger");
  }

  /** Comes to a stream that somebody else opened, in one of the wrong ways. */
  knock(random: Random): void {
    const keys = [...this.#context.ledger.streams.keys()];
    if (keys.length === 0) return;
    const idempotencyKey = random.pick(keys);
    const way = random.pick(["principal", "key", "forger"] as const);
    if (way === "forger") this.#forge(idempotencyKey);
    else this.#visit(idempotencyKey, way);
  }

  /** Opens a stream whose time is over, with the right key. */
  comeLate(idempotencyKey: string): void {
    this.#visit(idempotencyKey, "late");
  }

  #visit(idempotencyKey: string, way: "principal" | "key" | "late"): void {
    const { principal, streamKeyOf } = this.#context;
    const right = streamKeyOf(idempotencyKey);
    const streamKey = way === "key" ? right.map((byte) => byte ^ 1) : right;
    const credentials = way === "principal" ? "somebody else" : principal;
    const wire = this.#connect({ idempotencyKey, streamKey, credentials }, () => wire.end());
    wire.write([this.#attach(way === "late" ? "open" : "resume", "writer", "stranger")]);
  }

  /** A broken copy of the writer: says something else under a seqno that is taken. */
  #forge(idempotencyKey: string): void {
    const { truth, principal, streamKeyOf } = this.#context;
    const stream = truth.of(principal, idempotencyKey);
    const journalId = stream?.state.writers.at(-1)?.journalId;
    if (stream === undefined || journalId === undefined || stream.state.end !== undefined) return;
    const meta = { idempotencyKey, streamKey: streamKeyOf(idempotencyKey), credentials: principal };
    const wire = this.#connect(meta, (frame) => {
      if (frame.kind === "error") wire.end();
      if (frame.kind !== "welcome" || frame.nextSeqno === 0) return;
      const body = new TextEncoder().encode("something else");
      wire.write([{ kind: "chunk", seqno: frame.nextSeqno - 1, writerEpoch: frame.writerEpoch, body }]);
    });
    wire.write([this.#attach("resume", "writer", journalId)]);
    this.#context.world.enqueue(5_000, () => wire.end());
  }

  #connect(meta: ClientMeta, received: (frame: ServerFrame) => void): Wire<ClientFrame> {
    const connect = this.#context.network.connectFrom(this.#process, this.#context.pickNode);
    return connect(meta, { received, drained: () => undefined, closed: () => undefined });
  }

  #attach(mode: AttachFrame["mode"], role: AttachFrame["role"], journalId: string): AttachFrame {
    return {
      kind: "attach",
      protocolVersion: PROTOCOL_VERSION,
      mode,
      role,
      eventId: 0,
      journalId,
      fresh: false,
      abort: false,
      firstChunk: undefined,
    };
  }
}
