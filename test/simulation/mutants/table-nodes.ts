/** Planted bugs of nodes that share a store: what one does with a stream that another one runs. */
import type { Mutant } from "./table.ts";

const FOLLOWED = "src/core/followed-stream.ts";

export const NODE_MUTANTS: readonly Mutant[] = [
  {
    name: "a node that does not run the stream acks a chunk when it has posted it",
    breaks: "A3",
    patches: [
      {
        file: FOLLOWED,
        from: `{ kind: "post_chunk", seqno },\n      ];`,
        to: `{ kind: "post_chunk", seqno },\n        { kind: "send", connection, frame: { kind: "ack", seqno } },\n      ];`,
      },
    ],
  },
  {
    name: "a node judges an attach by what it saw of the stream before",
    breaks: "B5",
    patches: [
      {
        file: "src/server/following.ts",
        from: "      const [seen] = await store.look([stream.name]);\n      if (seen !== undefined) await stream.see(seen);\n",
        to: "",
      },
    ],
  },
  {
    name: "a node takes an older look for the newer one",
    breaks: "B1",
    patches: [{ file: FOLLOWED, from: "if (isOld) return [state, []];", to: "" }],
  },
  {
    name: "a node does not look unless it is told to, and the hint is lost",
    breaks: "F1",
    patches: [
      {
        file: "src/server/neighbours.ts",
        from: "    looking(undefined);\n    reading(undefined);\n",
        to: "",
      },
    ],
  },
  {
    name: "two nodes take a stream over at once, under one epoch",
    breaks: "D1",
    patches: [
      {
        file: "src/store/group.ts",
        from: "if (view.lease.hostId !== host.hostId && leaseLeftMs > 0) {",
        to: 'if (host.hostId === "") {',
      },
      {
        file: "src/store/group.ts",
        from: "const state = { ...view.state, hostEpoch: view.state.hostEpoch + 1 };",
        to: "const { state } = view;",
      },
    ],
  },
  {
    name: "a commit of unknown fate is sent again behind what the store has now",
    breaks: "A1",
    patches: [
      {
        file: "src/server/stream-commits.ts",
        from: `      const { hostEpoch, nextSeqno, eventHead } = expected;
      const commit = { ...contents, name, expected: { hostEpoch, nextSeqno, eventHead } };
      return (await this.#store.commit(commit)).kind === "committed";`,
        to: `      const send = async ({ hostEpoch, nextSeqno, eventHead }: StreamState): Promise<boolean> => {
        const chunks = contents.chunks && { ...contents.chunks, first: nextSeqno };
        const events = contents.events && { ...contents.events, first: eventHead + 1 };
        const commit = { ...contents, chunks, events, name, expected: { hostEpoch, nextSeqno, eventHead } };
        return (await this.#store.commit(commit)).kind === "committed";
      };
      try {
        return await send(expected);
      } catch {
        const found = await this.#store.load(name);
        return found.kind === "live" && (await send(found.state));
      }`,
      },
    ],
  },
];
