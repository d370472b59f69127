/** Planted bugs in the agent, and in the client's turns and conversations. */
import type { Mutant } from "./table.ts";

const TURN_IO = "src/agent/turn-io.ts";
const MODEL_STEP = "src/agent/model-step.ts";
const CALLS = "src/turn/calls.ts";
const CHECKPOINTS = "src/turn/checkpoints.ts";
const KV = "src/client/agent/kv.ts";
const TURN = "src/client/agent/turn.ts";
const CONVERSATION = "src/client/agent/conversation.ts";

const hunter = "agent" as const;

export const AGENT_MUTANTS: readonly Mutant[] = [
  {
    name: "an exec leaves while its step is still being written",
    breaks: "C0",
    hunter,
    patches: [
      {
        file: MODEL_STEP,
        from: "if (news !== undefined) await io.update(news);",
        to: `if (news !== undefined) await io.update(news);
    if (tool === "read") void io.stream.emit(toBinary(AgentServerMessageSchema, create(AgentServerMessageSchema, { message: { case: "execServerMessage", value: { id: 99, execId: place, toolCallId, message: { case: "readArgs", value: { path: "x" } } } } })));`,
      },
      {
        file: MODEL_STEP,
        from: `import { BlobKind, type Content, FinishReason } from "../protocol/messages.ts";`,
        to: `import { create, toBinary } from "../protocol/message.ts"; import { AgentServerMessageSchema, BlobKind, type Content, FinishReason } from "../protocol/messages.ts";`,
      },
    ],
  },
  {
    name: "the model is called for the next step while the one before is not on disk",
    breaks: "C0",
    hunter,
    patches: [
      {
        file: MODEL_STEP,
        from: "await io.untilDurable(io.facts.lastStep?.eventId ?? 0);",
        to: "",
      },
    ],
  },
  {
    name: "a finished step is forgotten when the log is read back",
    breaks: "C0",
    hunter,
    patches: [
      {
        file: TURN_IO,
        from: "if (body.length > 0) logged(this.facts, eventId, decodeServer(body));",
        to: `const past = decodeServer(body);
      if (!(past.message.case === "interactionUpdate" && past.message.value.message.case === "stepCompleted")) logged(this.facts, eventId, past);`,
      },
    ],
  },
  {
    name: "what was asked of the client is forgotten when the log is read back",
    breaks: "A8",
    hunter,
    patches: [
      {
        file: TURN_IO,
        from: "if (body.length > 0) logged(this.facts, eventId, decodeServer(body));",
        to: `const past = decodeServer(body);
      if (past.message.case !== "execServerMessage") logged(this.facts, eventId, past);`,
      },
    ],
  },
  {
    name: "a restarted step rolls nothing back",
    breaks: "B3",
    hunter,
    patches: [
      {
        file: MODEL_STEP,
        from: "String(begin.rollbackTo)",
        to: "String(begin.rollbackTo + 1_000)",
      },
    ],
  },
  {
    name: "a restarted step says that it is a new one",
    breaks: "C0",
    hunter,
    patches: [
      {
        file: MODEL_STEP,
        from: "switch (begin.how) {",
        to: `switch (attempt > 0 ? "start" : begin.how) {`,
      },
    ],
  },
  {
    name: "a tool call is over when it was asked for",
    breaks: "C1",
    hunter,
    patches: [
      {
        file: CALLS,
        from: `if (facts.book.execs.get(execId)?.stage === "issued") return WAITING;`,
        to: `if (facts.book.execs.get(execId)?.stage === "issued") return over("done", "");`,
      },
    ],
  },
  {
    name: "a checkpoint is published when the client has some of its blobs",
    breaks: "C4",
    hunter,
    patches: [
      {
        file: CHECKPOINTS,
        from: "return draft.unkept.length === 0;",
        to: "return draft.unkept.length < draft.blobs.length;",
      },
    ],
  },
  {
    name: "a turn ends without its last checkpoint",
    breaks: "C4",
    hunter,
    patches: [{ file: CHECKPOINTS, from: "if (!isKept(facts)) return end;", to: "return end;" }],
  },
  {
    name: "a blob is said to be kept before it is on disk",
    breaks: "C4",
    hunter,
    patches: [
      {
        file: KV,
        from: "await blobs.put(id, bytes);",
        // Late enough that the snapshot that covers the request is there first: until then the request comes again.
        to: "void (async () => { for (let looks = 0; looks < 4; looks++) await blobs.get(id); await blobs.put(id, bytes); })();",
      },
    ],
  },
  {
    name: "a snapshot of a turn covers requests that the client has not answered",
    breaks: "B3",
    hunter,
    patches: [
      {
        file: TURN,
        from: "void this.#kept\n      .then(() => this.#said)\n",
        to: "void Promise.resolve()\n",
      },
    ],
  },
  {
    name: "a turn begins before the conversation knows its name",
    breaks: "C4",
    hunter,
    patches: [
      {
        file: CONVERSATION,
        from: "await this.#change((record) => ({ ...record, model, title, turn }));",
        to: "void this.#change((record) => ({ ...record, model, title, turn }));",
      },
    ],
  },
  {
    name: "a turn whose journal was lost is only looked at",
    breaks: "F1",
    hunter,
    patches: [
      {
        file: CONVERSATION,
        from: "this.follow(await client.takeOver(idempotencyKey), { keeps: true, onQuery })",
        to: "this.follow(await client.follow(idempotencyKey), { keeps: true, onQuery })",
      },
    ],
  },
];
