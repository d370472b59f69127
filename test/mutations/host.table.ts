/** Rules of the host of a stream, broken. */
import type { Mutation } from "./mutation.ts";

const file = "test/e2e/host-promises.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "F2: what an application has read back stays in memory",
    file: "test/server/stream-logs.test.ts",
    test: "F2: when it has read its log back, nothing of it is kept",
    patches: [
      {
        file: "src/server/stream-logs.ts",
        from: "this.#opened = isSo ? [] : undefined;",
        to: "this.#opened ??= [];",
      },
    ],
  },
  {
    name: "a run that reads a long log back does so beside its clients",
    file: "test/server/readers-first.test.ts",
    test: "a run that reads a long log back lets its clients read first",
    patches: [
      {
        file: "src/server/application-run.ts",
        from: "if (eventHead - eventFloor > SHORT_LOG) await this.#host.readersServed();",
        to: "",
      },
    ],
  },
  {
    name: "F1: a run waits for a client that does not read",
    file: "test/core/hosted-stream.test.ts",
    test: "a connection is behind until it has what is durable",
    patches: [
      {
        file: "src/core/host-state.ts",
        from: "durable.eventHead && blockedSinceMs === undefined;",
        to: "durable.eventHead;",
      },
    ],
  },
  {
    name: "F5: a store that fails while a blob is read ends the turn",
    file: "test/e2e/blobs.test.ts",
    test: "F5: a store that fails while the application reads a blob ends no stream",
    patches: [
      {
        file: "src/server/stream-blobs.ts",
        from: `if (HoldfastError.codeOf(cause) === "unavailable") onUnavailable();`,
        to: "",
      },
    ],
  },
  {
    name: "B2: an emit resolves when its event is accepted, before it is durable",
    file,
    test: "B2: an emit resolves when its event is durable",
    patches: [
      {
        file: "src/server/application-run.ts",
        from: "this.#waiting.push({ event, eventId });",
        to: "event.durable(eventId);",
      },
    ],
  },
  {
    name: "F1: a running turn is dropped when the last client leaves",
    file,
    test: "F1: a turn that runs is kept",
    patches: [
      {
        file: "src/server/hosted.ts",
        from: "if (this.#run.isRunning) return",
        to: "if (this.#run.isWaiting) return",
      },
    ],
  },
  {
    name: "a commit that is due is asked for twice in a turn",
    file: "test/core/hosted-stream.test.ts",
    test: "a host that gathers commits at the end of a turn what the whole turn has staged",
    patches: [
      {
        file: "src/core/host-state.ts",
        from: "if (isEmpty || isUnstored(state)) return",
        to: "if (isEmpty || state.inFlight !== undefined) return",
      },
    ],
  },
  {
    name: "A2: after a restart the window of known chunks is one short",
    file,
    test: "A2: after a restart the whole window",
    patches: [
      {
        file: "src/server/stream-logs.ts",
        from: "const first = Math.max(from, nextSeqno - LIMITS.unackedChunksMax);",
        to: "const first = Math.max(from, nextSeqno - LIMITS.unackedChunksMax + 1);",
      },
      {
        file: "src/core/inbox.ts",
        from: `assert(macs.length === Math.min(nextSeqno, LIMITS.unackedChunksMax), "the newest MACs are all there");`,
        to: "",
      },
    ],
  },
  {
    name: "D5: a store that fails sends no durability_lost",
    file,
    test: "D5: a client that is attached when the store fails",
    patches: [
      {
        file: "src/core/host-state.ts",
        from: `if (reason === "durability_lost" && one.sender !== undefined) {`,
        to: "if (false) {",
      },
    ],
  },
  {
    name: "D3: an abort in a reader's attach is lost",
    file,
    test: "D3: an abort that a reader's attach carries",
    patches: [
      {
        file: "src/core/hosted-stream.ts",
        from: "input.frame.abort ? abort(state, input.nowMs) : [state, []];",
        to: `input.frame.abort && input.frame.role === "writer" ? abort(state, input.nowMs) : [state, []];`,
      },
    ],
  },
  {
    name: "A7: a stream expires under its attached writer",
    file,
    test: "A7: a stream whose writer is attached",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: "const isWanted = opening.has(id) || hosted?.hasWriter === true;",
        to: "const isWanted = opening.has(id);",
      },
    ],
  },
  {
    name: "D7: a stream expires under its writer at another node",
    file: "test/core/hosted-letters.test.ts",
    test: "D7: a writer that asks by letters",
    patches: [
      {
        file: "src/core/hosted-stream.ts",
        from: `const wanted = frame.role === "writer" ? { ...state, wantedMs: nowMs } : state;`,
        to: "const wanted = state;",
      },
    ],
  },
  {
    name: "A7: a stream expires under a connection that is about to get it",
    file: "test/server/expiry.test.ts",
    test: "A7: a stream that a connection is about to get",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: "const isWanted = opening.has(id) || hosted?.hasWriter === true;",
        to: "const isWanted = hosted?.hasWriter === true;",
      },
    ],
  },
  {
    name: "A7: a connection is let in while the tombstone is on its way to the disk",
    file: "test/server/expiry.test.ts",
    test: "A7: while the tombstone is on its way",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: `hosted?.drop("moved");
    await alone(id, expire(name, activityMs));`,
        to: `await expire(name, activityMs);
        hosted?.drop("moved");`,
      },
    ],
  },
  {
    name: "D7: a node lets a stream expire that another node runs",
    file: "test/server/expiry.test.ts",
    test: "D7: a stream whose writer is attached to another node",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: `const claimed = await store.claim(name, lease);
    if (claimed.kind !== "live") return;`,
        to: `const claimed = await store.load(name);
    if (claimed.kind !== "live") return;`,
      },
    ],
  },
  {
    name: "D7: a sweep ends a thousand streams and no more",
    file: "test/server/expiry.test.ts",
    test: "D7: one sweep ends all streams whose time is over, however many there are, and shares the commits",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: "while (names.length === SWEEP_COUNT_MAX && counters.expired > before);",
        to: "while (names.length < 0 && counters.expired > before);",
      },
    ],
  },
  {
    name: "D7: a node judges by its own clock which streams have expired",
    file: "test/server/expiry.test.ts",
    test: "D7: the store's clock says which streams have expired, whatever the clock of a node says",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: "const nowMs = await store.now();",
        to: "const nowMs = context.environment.now();",
      },
    ],
  },
];
