/** Planted bugs of nodes that share a store: what one does with a stream that another one runs. */
import type { Mutant } from "./table.ts";

const FOLLOWED = "src/core/followed-stream.ts";

const VERDICTS = "src/store/postgres/verdicts.ts";
const FATE = "src/store/postgres/group-fate.ts";
const STREAMS = "src/store/postgres/postgres-streams.ts";
/** What a store does with a commit, up to its end. */
const COMMIT_TO = `      answer: (outcome) => commitVerdict(act, outcome),
      readBack: (back) => commitReadBack(act, back),
    });`;
const AGAIN_AS = `      answer: (outcome) => commitVerdict(act, outcome),
      readBack: (back) => commitReadBack(act, back),
    }).then((result: Committed | Conflict): Committed | Conflict | Promise<Committed | Conflict> => {
      if (result.kind === "committed") return result;
      const { state } = result;`;

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
  {
    name: "a group of unknown fate is taken for done",
    breaks: "A3",
    patches: [
      { file: FATE, from: "return receipt.groupNumber >= sent;", to: "return receipt.groupNumber > -sent;" },
      { file: VERDICTS, from: 'if (!isTaken) return answer({ kind: "conflict", state });', to: "" },
    ],
  },
  {
    name: "a group of unknown fate is sent again, and what does not fit then goes behind what there is",
    breaks: "A1",
    patches: [
      { file: FATE, from: "return receipt.groupNumber >= sent;", to: "return receipt.groupNumber < -sent;" },
      {
        file: STREAMS,
        from: COMMIT_TO,
        to: `${AGAIN_AS}
      if (state?.hostEpoch !== commit.expected.hostEpoch || state.end !== undefined) return result;
      const chunks = commit.chunks && { ...commit.chunks, first: state.nextSeqno };
      const events = commit.events && { ...commit.events, first: state.eventHead + 1 };
      return commitTo(place, { ...commit, chunks, events, expected: state });
    });`,
      },
    ],
  },
  {
    name: "a node whose lease is over writes behind what there is, under the epoch that there is",
    breaks: "D1",
    patches: [
      {
        file: STREAMS,
        from: COMMIT_TO,
        to: `${AGAIN_AS}
      if (state === undefined || state.hostEpoch === commit.expected.hostEpoch || state.end !== undefined) return result;
      const chunks = commit.chunks && { ...commit.chunks, first: state.nextSeqno };
      const events = commit.events && { ...commit.events, first: state.eventHead + 1 };
      return commitTo(place, { ...commit, chunks, events, expected: state });
    });`,
      },
    ],
  },
  {
    name: "a claim that was left out is told as a takeover",
    breaks: "D1",
    patches: [
      { file: VERDICTS, from: "if (outcome.applied.claim.has(act.place.id)) {", to: "if (found.id > 0) {" },
    ],
  },
  {
    name: "a commit that was left out of its group is told as done",
    breaks: "A3",
    patches: [
      {
        file: VERDICTS,
        from: 'return { kind: "refused", verdict: answer({ kind: "conflict", state }) };',
        to: 'return { kind: "refused", verdict: answer({ kind: "committed", state: { ...state, ...behind(commit) } }) };',
      },
    ],
  },
  {
    name: "a batch of rows that was left out of its group is told as written",
    breaks: "D1",
    hunter: "nodes",
    patches: [
      {
        file: VERDICTS,
        from: 'writes === undefined ? { kind: "written", version: outcome.rowVersion }',
        to: 'writes?.length !== 0 ? { kind: "written", version: outcome.rowVersion }',
      },
    ],
  },
  {
    name: "a batch whose answer was lost is told as written, whatever the rows say",
    breaks: "D1",
    hunter: "nodes",
    patches: [
      { file: VERDICTS, from: "return isThere ? written : refuse(unknown());", to: "return written;" },
    ],
  },
  {
    name: "a blob is said to be kept before it has its name",
    breaks: "A3",
    patches: [
      {
        file: "src/store/postgres/postgres-blobs.ts",
        from: `      const [row] = await statement(writer, nameBlob(space, id, upload, stored.byteLength, keepMs));
      return { existed: row !== undefined && number(row, "count") > 0 };`,
        to: `      statement(writer, nameBlob(space, id, upload, stored.byteLength, keepMs)).catch(() => undefined);
      return { existed: false };`,
      },
    ],
  },
  {
    name: "a store wakes no other node, and a node does not look unless it is woken",
    breaks: "F1",
    patches: [
      {
        file: "src/store/postgres/bell-payload.ts",
        from: "return [stream(act.place)];",
        to: "return act.place.id < 0 ? [stream(act.place)] : [];",
      },
      {
        file: "src/server/neighbours.ts",
        from: "    looking(undefined);\n    reading(undefined);\n",
        to: "    reading(undefined);\n",
      },
    ],
  },
  {
    name: "a session that has moved, which its old node has not heard of, sends results to a stream of their own",
    breaks: "G1",
    hunter: "nodes",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: `if (session?.state.at === "parked" && session.record.answer.fromEvent < answer.fromEvent) session.letGo();
    else if`,
        to: "if",
      },
    ],
  },
];
