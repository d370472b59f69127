/** Planted bugs in the server, the store and the sealing. */
import type { Mutant } from "./table.ts";

const HOSTED = "src/core/hosted-stream.ts";
const HOST_STATE = "src/core/host-state.ts";
const DRIVER = "src/server/hosted.ts";
const LASTING = "src/server/lasting-server.ts";
const STORE = "src/store/log-stream-store.ts";
const KEEPER = "src/server/keeper.ts";
const ATTACH = "src/core/attach.ts";
const INBOX = "src/core/inbox.ts";
const LIFE = "src/core/life.ts";

export const SERVER_MUTANTS: readonly Mutant[] = [
  {
    name: "a chunk is acked when it is accepted, not when it is durable",
    breaks: "A3",
    patches: [
      {
        file: HOSTED,
        from: `[...done, { kind: "stage_chunk", seqno: effect.seqno, isClose: effect.isClose }]];`,
        to: `[...done, { kind: "stage_chunk", seqno: effect.seqno, isClose: effect.isClose }, { kind: "send", connection, frame: { kind: "ack", seqno: effect.seqno } }]];`,
      },
    ],
  },
  {
    name: "everybody is told before the store has synced",
    breaks: "A3",
    patches: [
      {
        file: DRIVER,
        from: "const isCommitted = await this.#commits.commit(expected, {",
        to: "const isCommitted: boolean = await true; void this.#commits.commit(expected, {",
      },
    ],
  },
  {
    name: "a stream is told of before it is made",
    breaks: "B2",
    patches: [{ file: KEEPER, from: "if (hosted.isUnborn) {", to: "if (false) {" }],
  },
  {
    name: "a failed sync is taken for a success",
    breaks: "F5",
    patches: [
      {
        file: DRIVER,
        from: `this.drop("durability_lost");
      return;
    }
    if (this.#state.dropped) return;`,
        to: `}
    if (this.#state.dropped) return;`,
      },
    ],
  },
  {
    name: "a store that failed is not reported, and is never opened anew",
    breaks: "F1",
    patches: [{ file: STORE, from: "if (isFirst) this.#options.onFailed?.(this.#failure);", to: "" }],
  },
  {
    name: "a server whose store was opened anew goes on with the one that failed",
    breaks: "F5",
    patches: [{ file: LASTING, from: "this.#standing = opened;", to: "" }],
  },
  {
    name: "a welcome promises chunks that are only staged",
    breaks: "A3",
    patches: [
      { file: HOST_STATE, from: "nextSeqno: durable.nextSeqno,", to: "nextSeqno: state.staged.nextSeqno," },
    ],
  },
  {
    name: "a welcome forgets what was acked",
    breaks: "A6",
    patches: [{ file: HOST_STATE, from: "nextSeqno: durable.nextSeqno,", to: "nextSeqno: 0," }],
  },
  {
    name: "other content under a taken seqno is acked",
    breaks: "A2",
    patches: [{ file: INBOX, from: "if (!isSameBytes(known, mac)) {", to: "if (known === mac && false) {" }],
  },
  {
    name: "a gap in the seqnos is accepted",
    breaks: "A1",
    patches: [
      { file: INBOX, from: "if (input.seqno > state.next) {", to: "if (input.seqno > state.next + 1) {" },
    ],
  },
  {
    name: "a repeated chunk is accepted again",
    breaks: "A1",
    patches: [
      {
        file: INBOX,
        from: "return input.seqno < state.next ? repeated(state, input.seqno, input.mac) : accept(state, input);",
        to: "return accept(state, { ...input, seqno: state.next });",
      },
    ],
  },
  {
    name: "an event is sent twice where replay meets live",
    breaks: "B1",
    patches: [
      {
        file: HOST_STATE,
        from: "sender.init(state.options.sender, one.eventId, state.durable.eventHead);",
        to: "sender.init(state.options.sender, Math.max(0, one.eventId - 1), state.durable.eventHead);",
      },
    ],
  },
  {
    name: "an event is skipped where replay meets live",
    breaks: "B1",
    patches: [
      {
        file: "src/core/sender.ts",
        from: `[{ kind: "read", from: cursor + 1, bytesMax }]`,
        to: `[{ kind: "read", from: Math.min(cursor + 2, state.head), bytesMax }]`,
      },
    ],
  },
  {
    name: "an event that is read back is another one's",
    breaks: "B4",
    patches: [
      {
        file: "src/server/hosted.ts",
        from: ".map(frameOf)",
        to: ".map((one, at, all) => frameOf({ ...one, body: (all[at - 1] ?? one).body }))",
      },
    ],
  },
  {
    name: "a fenced writer is still heard",
    breaks: "D1",
    patches: [
      {
        file: HOSTED,
        from: "if (!isOwnEpoch || one.writerEpoch < state.durable.writerEpoch) return fence(state, connection);",
        to: "",
      },
      {
        file: HOSTED,
        from: "if (one.writerEpoch < state.staged.writerEpoch) return [state, []];",
        to: "",
      },
      {
        file: HOST_STATE,
        from: `const isOvertaken = one.role === "writer" && one.writerEpoch < state.durable.writerEpoch;`,
        to: "const isOvertaken = false;",
      },
    ],
  },
  {
    name: "a fenced journal takes the stream back by itself",
    breaks: "D1",
    patches: [
      {
        file: ATTACH,
        from: "const wasWriter = staged.writers.some((writer) => writer.journalId === attach.journalId);",
        to: "const wasWriter = false;",
      },
    ],
  },
  {
    name: "a new writer is welcomed before its epoch is durable",
    breaks: "D1",
    patches: [
      {
        file: HOST_STATE,
        from: "if (one.sender !== undefined || one.writerEpoch > state.durable.writerEpoch) continue;",
        to: "if (one.sender !== undefined) continue;",
      },
    ],
  },
  {
    name: "a commit is accepted whatever the store holds",
    breaks: "D1",
    patches: [
      {
        file: "src/store/group.ts",
        from: `before.hostEpoch !== expected.hostEpoch ||
      before.nextSeqno !== expected.nextSeqno ||
      before.eventHead !== expected.eventHead`,
        to: "false",
      },
    ],
  },
  {
    name: "a host that slept judges by what it remembers",
    breaks: "D1",
    patches: [
      {
        file: KEEPER,
        from: "if (hosted.unconfirmedMs > lease.leaseMs / 2) {",
        to: "if (hosted.unconfirmedMs > Number.MAX_SAFE_INTEGER) {",
      },
    ],
  },
  {
    name: "a late answer of the store counts as fresh",
    breaks: "D1",
    patches: [{ file: DRIVER, from: "this.confirmed(askedMs);", to: "this.confirmed(this.#now());" }],
  },
  {
    name: "model output goes on after an abort",
    breaks: "D3",
    patches: [
      {
        file: LIFE,
        from: `kind: state.aborted || state.end !== undefined ? "refuse" : "record_event"`,
        to: `kind: state.end !== undefined ? "refuse" : "record_event"`,
      },
    ],
  },
  {
    name: "an abort is heard and not recorded",
    breaks: "D3",
    patches: [
      {
        file: LIFE,
        from: `return [{ ...state, aborted: true }, [{ kind: "record_abort" }]];`,
        to: "return [state, []];",
      },
    ],
  },
  {
    name: "a turn is aborted that no client wanted to stop",
    breaks: "D3",
    patches: [
      {
        file: HOSTED,
        from: `return [reported(state, input.connection, input.runningExecIds, input.nowMs), []];`,
        to: `return input.nowMs % 7 === 0 ? commitNext(...abort(heard(state, input.connection, input.nowMs), input.nowMs)) : [reported(state, input.connection, input.runningExecIds, input.nowMs), []];`,
      },
    ],
  },
  {
    name: "an existing stream runs without its store",
    breaks: "D5",
    patches: [
      {
        file: ATTACH,
        from: `if (attach.fresh && attach.mode === "open" && attach.role === "writer") return { kind: "degrade" };`,
        to: `if (attach.role === "writer") return { kind: "degrade" };`,
      },
    ],
  },
  {
    name: "a degraded stream is acknowledged",
    breaks: "D5",
    patches: [
      {
        file: "src/server/degraded.ts",
        from: "nextSeqno++;",
        to: 'nextSeqno++; wire.write([{ kind: "ack", seqno }]);',
      },
    ],
  },
  {
    name: "tombstones are forgotten at once",
    breaks: "A7",
    patches: [
      {
        file: KEEPER,
        from: "await store.forgetGone(nowMs - retention.tombstoneMs);",
        to: "await store.forgetGone(nowMs + 1);",
      },
    ],
  },
  {
    name: "a wrong stream key is let in",
    breaks: "E1",
    patches: [
      {
        file: ATTACH,
        from: `return found.keyMatches ? { kind: "go_on" } : NOT_FOUND;`,
        to: `return { kind: "go_on" };`,
      },
    ],
  },
  {
    name: "another principal's stream is found",
    breaks: "E2",
    patches: [
      {
        file: "src/server/entries.ts",
        from: "return JSON.stringify([principal, idempotencyKey]);",
        to: "return JSON.stringify([idempotencyKey]);",
      },
    ],
  },
  {
    name: "every process seals under the same incarnation",
    breaks: "E3",
    patches: [
      {
        file: "src/sealing/node.ts",
        from: "createSealer(new Uint8Array(checked(streamKey)), drawIncarnation(randomBytes)),",
        to: "createSealer(new Uint8Array(checked(streamKey)), new Uint8Array(16)),",
      },
    ],
  },
];
