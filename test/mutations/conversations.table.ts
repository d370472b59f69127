/** Rules of conversations that the server keeps, taken back one by one. */
import type { Mutation } from "./mutation.ts";

const KEPT = "test/e2e/kept-conversations.test.ts";
const CLEAN_UP = "test/gateway/clean-up.test.ts";
const CONVERSATIONS = "src/server/conversations.ts";
const HOSTED = "src/server/hosted-conversation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a conversation's space has the same name for every principal",
    file: KEPT,
    test: "E1, E2: another conversation, another principal and another home key find nothing",
    patches: [
      {
        file: CONVERSATIONS,
        from: "space: JSON.stringify([KIND, principal, name]),",
        to: `space: JSON.stringify([KIND, principal === "" ? principal : "all", "one"]),`,
      },
    ],
  },
  {
    name: "a stream is attached to with any conversation key",
    file: KEPT,
    test: "E1: a stream is not found with another conversation key than its own",
    patches: [
      {
        file: "src/server/stream-access.ts",
        from: "sealing.equal(sealing.keyCheck(conversation.key), checkOf ?? NO_BYTES));",
        to: "sealing.equal(sealing.keyCheck(conversation.key), sealing.keyCheck(conversation.key)));",
      },
    ],
  },
  {
    name: "a turn runs though its conversation cannot be read",
    file: KEPT,
    test: "a turn whose conversation cannot be read waits for a client with its key",
    patches: [
      {
        file: HOSTED,
        from: "return conversationCheck === undefined || this.#meta !== undefined || aborted;",
        to: "return true;",
      },
    ],
  },
  {
    name: "what a turn keeps is not in the commit of its event",
    file: KEPT,
    test: "what a turn keeps outlives its stream, and is read by the next one",
    patches: [
      {
        file: HOSTED,
        from: "if (kept.length > 0) this.#waiting.push({ eventId, kept });",
        to: "if (kept.length > 1_000) this.#waiting.push({ eventId, kept });",
      },
    ],
  },
  {
    name: "a principal may have the server keep as much as it likes",
    file: KEPT,
    test: "E4, E8: on the disk nothing of it can be read, a principal has a quota, and the sweep clears what is over",
    patches: [
      { file: CONVERSATIONS, from: "if (heldBytes < bytesMax) return;", to: "if (bytesMax > 0) return;" },
    ],
  },
  {
    name: "conversations whose time is over stay on the disk",
    file: KEPT,
    test: "E4, E8: on the disk nothing of it can be read, a principal has a quota, and the sweep clears what is over",
    patches: [{ file: "src/server/keeper.ts", from: "    await conversations?.sweep();\n", to: "" }],
  },
  {
    name: "a conversation that its client deletes leaves what retries would get",
    file: CLEAN_UP,
    test: "a conversation that its client deletes is gone at once, with what retries would get; others stay",
    patches: [
      {
        file: "src/gateway/sessions.ts",
        from: "await store.remove(record, { withResponses: true });",
        to: "await store.remove(record, { withResponses: false });",
      },
    ],
  },
];
