/**
 * The checks of what servers tell: what they blame, and what only looks alike.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { newStreamState } from "../../src/core/stream-state.ts";
import type { AttachFrame, WelcomeFrame } from "../../src/protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../../src/protocol/limits.ts";
import { checkedAccept } from "./frame-checks.ts";
import type { TrueStream } from "./truth.ts";
import { World } from "./world/index.ts";

const NAME = { principal: "ada", idempotencyKey: "one" };
const ATTACH: AttachFrame = {
  kind: "attach",
  protocolVersion: PROTOCOL_VERSION,
  mode: "resume",
  role: "reader",
  eventId: 0,
  journalId: "",
  firstChunk: undefined,
  fresh: false,
  abort: false,
};
const WELCOME: WelcomeFrame = {
  kind: "welcome",
  message: "",
  nextSeqno: 0,
  eventHead: 0,
  eventFloor: 0,
  writerEpoch: 0,
  writerSinceEvent: 0,
  durability: "fsync",
  retentionLeftMs: 1,
  heartbeatIntervalMs: 1,
  serverTimeMs: 0,
  lastActivityMs: 0,
  aborted: false,
  protocolVersion: PROTOCOL_VERSION,
  resumed: true,
  closed: false,
  degraded: false,
};

interface Told {
  /** The stream expires before the client attaches, or behind that. */
  readonly expires: "before" | "behind";
  readonly welcome?: Partial<WelcomeFrame>;
  /** What waits unsent behind the welcome. */
  readonly waitingBytes?: number;
}

/** Attaches to a stream, and is welcomed. */
function welcomed({ expires, welcome, waitingBytes = 0 }: Told): void {
  const stream: TrueStream = {
    name: NAME,
    state: newStreamState(new Uint8Array(16), 0, 1),
    isGone: expires === "before",
    chunks: [],
    events: [],
    beganMs: 0,
    abortedAt: undefined,
  };
  const world = new World(1);
  const accept = checkedAccept(
    {
      world,
      truth: { of: () => stream },
      ledger: { degraded: () => undefined, writers: new Set() },
      isRightful: () => true,
      waitingBytesMax: 0,
      process: { alive: true, paused: false },
    },
    (_, wire) => ({
      received: () => {
        stream.isGone = true;
        wire.write([{ ...WELCOME, ...welcome }]);
      },
      drained: () => undefined,
      closed: () => undefined,
    }),
  );
  accept(
    { ...NAME, streamKey: new Uint8Array(32) },
    { write: () => waitingBytes, end: () => undefined },
  ).received(ATTACH);
}

test("A7: a node may welcome a client to a stream that another node expires meanwhile, but to none that had expired before", () => {
  welcomed({ expires: "behind" });
  assert.throws(() => welcomed({ expires: "before" }), /A7: a stream that is not there was welcomed/);
});

test("F2: what waits for the reader of a degraded stream is bounded by the end of that stream, and of any other by a pause", () => {
  const degraded = { degraded: true, durability: "none", resumed: false } as const;
  const most = { expires: "behind", welcome: degraded, waitingBytes: LIMITS.sendQueueBytesMax } as const;
  welcomed(most);
  const tooMuch = /F2: \d+ bytes wait for one reader/;
  assert.throws(() => welcomed({ ...most, waitingBytes: LIMITS.sendQueueBytesMax + 1 }), tooMuch);
  assert.throws(() => welcomed({ expires: "behind", waitingBytes: 1 }), tooMuch);
});
