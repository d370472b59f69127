/**
 * Those who should get nothing: another principal, a wrong stream key, and the honest client that
 * comes too late and must hear "gone" (A7, D4, E1, E2).
 */
import { PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import type { AttachFrame } from "../../src/protocol/frames.ts";
import type { Ledger } from "./ledger.ts";
import { type Random, type SimNetwork, SimProcess, type World } from "./world/index.ts";

export interface StrangersContext {
  readonly world: World;
  readonly network: SimNetwork;
  readonly ledger: Ledger;
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

  /** Attaches to a stream that somebody else opened, in one of the wrong ways or too late. */
  knock(random: Random): void {
    const keys = [...this.#context.ledger.streams.keys()];
    if (keys.length === 0) return;
    const idempotencyKey = random.pick(keys);
    const way = random.pick(["principal", "key", "latecomer"] as const);
    const right = this.#context.streamKeyOf(idempotencyKey);
    const streamKey = way === "key" ? right.map((byte) => byte ^ 1) : right;
    const credentials = way === "principal" ? "somebody else" : this.#context.principal;
    const connect = this.#context.network.connectFrom(this.#process, this.#context.pickNode);
    const wire = connect(
      { idempotencyKey, streamKey, credentials },
      {
        received: () => wire.end(),
        drained: () => undefined,
        closed: () => undefined,
      },
    );
    wire.write([
      this.#attach(way === "latecomer" ? "open" : "resume", way === "latecomer" ? "reader" : "writer"),
    ]);
  }

  #attach(mode: AttachFrame["mode"], role: AttachFrame["role"]): AttachFrame {
    return {
      kind: "attach",
      protocolVersion: PROTOCOL_VERSION,
      mode,
      role,
      eventId: 0,
      journalId: "stranger",
      fresh: false,
      abort: false,
      firstChunk: undefined,
    };
  }
}
