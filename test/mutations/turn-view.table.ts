/** Mends of what people are shown of a turn, taken back. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "a step that begins anew leaves its text with the reader, who has it twice",
    file: "test/turn/parts.test.ts",
    test: "a step that begins anew takes back its text, its thoughts and the calls it was writing",
    patches: [
      {
        file: "src/turn/parts.ts",
        from: "held === before.parts.length ? [] : [retract(before, held)]",
        to: "[]",
      },
    ],
  },
  {
    name: "a reader that cannot take anything back is given a step before it is complete",
    file: "test/turn/parts.test.ts",
    test: "what is settled is never taken back, and with the end it is all that was said",
    patches: [
      {
        file: "src/turn/parts.ts",
        from: "partsBetween(before.mark ?? before, after.mark ?? after)",
        to: "partsBetween(before, after)",
      },
    ],
  },
  {
    name: "a call that began anew overtakes the retract that took the first one back",
    file: "test/turn/parts.test.ts",
    test: "a call that began anew waits behind the retract that took the first one back",
    patches: [
      {
        file: "src/turn/parts.ts",
        from: 'other.type === "retract" || ',
        to: "",
      },
    ],
  },
  {
    name: "two paragraphs of an answer are one",
    file: "test/turn/parts.test.ts",
    test: "texts appended and retracts obeyed are the view's text, at every message",
    patches: [
      {
        file: "src/turn/parts.ts",
        from: 'isFollowing ? PARAGRAPH : ""',
        to: '""',
      },
    ],
  },
  {
    name: "the manual's program prints what a killed server had said before the answer",
    file: "test/docs/talk.test.ts",
    test: "talk.js in a pipe prints the answer and nothing else, although the server was killed in its middle",
    patches: [
      {
        file: "src/client/agent/turn.ts",
        from: "return { [Symbol.asyncIterator]: () => this.#readers.settled(this.#view) };",
        to: 'const live = () => this.#readers.live(this.#view);\n    return { async *[Symbol.asyncIterator]() { for await (const part of live()) if (part.type !== "retract") yield part; } };',
      },
    ],
  },
  {
    name: "-p on a terminal prints a step twice and does not say which words count",
    file: "test/cli/chat-restart.test.ts",
    test: "-p on a terminal says that the words of a step that begins anew are void",
    patches: [
      {
        file: "src/cli/chat/one-shot.ts",
        from: 'part.type === "retract" && part.text !== ""',
        to: 'part.type === "retract" && part.text === ""',
      },
    ],
  },
  {
    name: "-p names two ways to allow a tool that was denied, and one of them does not work here",
    file: "test/cli/chat-prompt.test.ts",
    test: "-p: a tool that may not run is exit code 3, one that may runs, and a failing model is 1",
    patches: [
      {
        file: "src/cli/chat/session.ts",
        from: "ask = unasked,",
        to: "ask,",
      },
    ],
  },
];
