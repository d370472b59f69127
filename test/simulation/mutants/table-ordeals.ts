/** Planted bugs that only ordeals notice: long streams, clocks that are set by hours, appends that overtake each other, cut uploads. */
import type { Mutant } from "./table.ts";

const SPLIT = "src/transport/node/split-connection.ts";

export const ORDEAL_MUTANTS: readonly Mutant[] = [
  {
    name: "event ids are compared as text of four digits",
    breaks: "B1",
    patches: [
      {
        file: "src/core/cursor.ts",
        from: "if (input.eventId <= state.taken) return [state, []];",
        to: `const padded = (id: number): string => String(id).padStart(4, "0");
      if (padded(input.eventId) <= padded(state.taken)) return [state, []];`,
      },
    ],
  },
  {
    name: "a read that is full leaves out its first batch",
    breaks: "B1",
    patches: [
      {
        file: "src/store/batch-reader.ts",
        from: "if (found.length > 0 && bytes > bytesMax) return found;",
        to: "if (found.length > 0 && bytes > bytesMax) return found.slice(1);",
      },
    ],
  },
  {
    name: "of more than 256 chunks the MACs of the first stay",
    breaks: "A2",
    patches: [
      {
        file: "src/core/inbox.ts",
        from: "...state.macs.slice(-(LIMITS.unackedChunksMax - 1)), mac",
        to: "...state.macs.slice(0, LIMITS.unackedChunksMax - 1), mac",
      },
    ],
  },
  {
    name: "chunks that overtook each other are handed over as they come",
    breaks: "A1",
    patches: [
      {
        file: SPLIT,
        from: "if (frame.seqno > this.#next && this.#isWriter && this.#hold(frame)) return;",
        to: "",
      },
    ],
  },
  {
    name: "an append is answered when it is there, not when it is durable",
    breaks: "A3",
    patches: [
      {
        file: SPLIT,
        from: "if (nextSeqno > 0 && durable !== undefined && durable >= nextSeqno) return { nextSeqno: durable };",
        to: "if (nextSeqno > 0) return { nextSeqno };",
      },
    ],
  },
  {
    name: "an upload that was cut is taken for a whole one",
    breaks: "E5",
    patches: [
      {
        file: "src/server/http/transfer.ts",
        from: `fail(new HoldfastError("connection_lost", "the client hung up"));`,
        to: "hasRequestEnded = true; wake();",
      },
      {
        file: "src/server/http/blob-endpoints.ts",
        from: `if (filled < sizeBytes) throw invalidFrame("the blob is smaller than its header says");`,
        to: "",
      },
    ],
  },
  {
    name: "an upload that was cut is not made again",
    breaks: "A3",
    patches: [
      {
        file: "src/client/blob-transfers.ts",
        from: "const { code, message, retryAfterMs } = cause;",
        to: `const { code, message, retryAfterMs } = cause; if (code === "connection_lost") return undefined as never;`,
      },
    ],
  },
];
