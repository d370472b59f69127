/** Rules of pages: what `useChat` is told, an application's own route, going back in a conversation. */
import type { Mutation } from "./mutation.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "text that a step took back stays in useChat",
    file: "test/ai-sdk/ui-chunks.test.ts",
    test: "G1: whatever a turn says",
    patches: [{ file: "src/ai-sdk/ui-chunks.ts", from: 'chunks.push({ type: "reset-step" });', to: "" }],
  },
  {
    name: "a call that waits is asked about with every change",
    file: "test/ai-sdk/ui-chunks.test.ts",
    test: "C7: a call that waits is asked about once",
    patches: [
      {
        file: "src/ai-sdk/ui-chunks.ts",
        from: "if (approvalId !== undefined && known?.approvalId === undefined)",
        to: "if (approvalId !== undefined)",
      },
    ],
  },
  {
    name: "an answer in which a tool was called is made a second time",
    file: "test/node/chats.test.ts",
    test: "C1: an answer in which a tool was called",
    patches: [
      {
        file: "src/node/chats.ts",
        from: "else if (said.hasTools || said.hasSteps)",
        to: "else if (said.hasSteps)",
      },
    ],
  },
  {
    name: "what useChat asks for again in the same moment is stopped",
    file: "test/ai-sdk/route-transport.test.ts",
    test: "D3: what useChat lets go of",
    patches: [
      {
        file: "src/ai-sdk/route-transport.ts",
        from: "this.#requests.get(chatId) === request && ",
        to: "",
      },
    ],
  },
  {
    name: "a chunk that came before the connection broke is told again",
    file: "test/ai-sdk/route-transport.test.ts",
    test: "B4: over connections that break anywhere",
    patches: [
      {
        file: "src/ai-sdk/route-transport.ts",
        from: 'return cursor === 0 ? {} : { "last-event-id": String(cursor) };',
        to: "return cursor === 0 ? {} : {};",
      },
      {
        file: "src/ai-sdk/route-transport.ts",
        from: "(id !== 0 && id <= cursor)",
        to: "(id !== 0 && id < 0)",
      },
    ],
  },
  {
    name: "a request that comes again is answered again",
    file: "test/node/chats.test.ts",
    test: "A2: a request that comes twice",
    patches: [
      {
        file: "src/node/chats.ts",
        from: "if (known?.requestKey === requestKey)",
        to: "if (known?.requestKey === newName())",
      },
    ],
  },
  {
    name: "a conversation that goes back tells the model what is gone",
    file: "test/client/agent/pages.test.ts",
    test: "a conversation goes back by turns",
    patches: [
      { file: "src/client/agent/rewind.ts", from: "messages.length - messagesGone", to: "messages.length" },
    ],
  },
  {
    name: "a paragraph is cut where what is written next may still change it",
    file: "test/page/markdown.test.ts",
    test: "a text is not cut where an emphasis has begun that may still be closed",
    patches: [{ file: "src/page/markdown.ts", from: "const AHEAD = REACH + 100;", to: "const AHEAD = 100;" }],
  },
  {
    name: "tabs hand each other whole buffers",
    file: "test/browser/shared-connection.test.ts",
    test: "a tab gets its own bytes of a body",
    patches: [
      {
        file: "src/client/browser/tab-messages.ts",
        from: '"body" in frame ? { ...frame, body: frame.body.slice() } : frame',
        to: "frame",
      },
    ],
  },
  {
    name: "a message between tabs may hold anything where frames belong",
    file: "test/browser/tab-messages.test.ts",
    test: "a message between tabs with any field that is absent or something else is none",
    patches: [
      {
        file: "src/client/browser/tab-messages.ts",
        from: "frames: { ...ofTab, frames: list(holding({})) },",
        to: "frames: { ...ofTab, frames: holding({}) },",
      },
    ],
  },
  {
    name: "E8: a frame between tabs is checked by its kind alone",
    file: "test/browser/tab-messages.test.ts",
    test: "E8: a frame between tabs that is none closes its connection alone",
    patches: [
      {
        file: "src/protocol/frame-check.ts",
        from: "for (const [name, check, told] of rules) check(value[name], told);",
        to: "for (const [name, check, told] of rules.slice(0, 1)) check(value[name], told);",
      },
    ],
  },
  {
    name: "a page that falls behind stops to follow its answer",
    file: "test/page/at-end.test.ts",
    test: "what was added before the browser told of the scroll",
    patches: [
      {
        file: "src/page/at-end.ts",
        from: "isNear || (before.isAtEnd && scrollTop >= before.top)",
        to: "isNear",
      },
    ],
  },
  {
    name: "a turn that can be seen is not drawn",
    file: "test/page/turn-window.test.ts",
    test: "a turn that can be seen is drawn",
    patches: [
      { file: "src/page/turn-window.ts", from: "if (below < seenTop - height) first++;", to: "first++;" },
    ],
  },
  {
    name: "a chunk in the stream view has its bytes alone",
    file: "test/page/stream-log.test.ts",
    test: "a chunk is named by what it says",
    patches: [
      { file: "src/page/stream-log.ts", from: "name = chunkName(decodedChunk(body))", to: 'name = "chunk"' },
    ],
  },
];
