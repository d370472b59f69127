/** What our codec of messages does for safety, taken back. */
import type { Mutation } from "./mutation.ts";

const file = "test/protocol/message.test.ts";
const NEARLY =
  "bytes that are nearly a message are the same value with both, or refused by both; unknown fields survive";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a field of a newer version is lost when a message is written again",
    file,
    test: NEARLY,
    patches: [{ file: "src/protocol/message.ts", from: "message.$unknown ?? []", to: "[]" }],
  },
  {
    name: "E8: a read may go beyond the end of the bytes",
    file,
    test: NEARLY,
    patches: [
      { file: "src/protocol/wire.ts", from: "if (this.pos > this.len)", to: "if (this.pos > this.len + 1)" },
    ],
  },
  {
    name: "E8: messages may lie in each other as deep as their sender likes",
    file,
    test: "a conversation within a conversation may lie as deep with both",
    patches: [
      { file: "src/protocol/message.ts", from: "if (depthLeft === 0)", to: "if (depthLeft === Infinity)" },
    ],
  },
  {
    name: "a number that does not fit is written as another one",
    file,
    test: "numbers that do not fit, and values of other types, are not written",
    patches: [{ file: "src/protocol/message.ts", from: "value >>> 0 !== value", to: "Number.isNaN(value)" }],
  },
  {
    name: "a field that is set to zero is not written, although it has presence",
    file,
    test: "a message of any fields is the same value, and the same bytes, with both",
    patches: [
      {
        file: "src/protocol/message.ts",
        from: "} else if (slot.hasPresence) {",
        to: "} else if (slot.hasPresence && value !== 0) {",
      },
    ],
  },
];
