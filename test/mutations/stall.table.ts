/** Rules of the stall detectors, taken back. */
import type { Mutation } from "./mutation.ts";

const E2E = "test/e2e/stall.test.ts";
const CLIENT = "test/core/client-requests.test.ts";
const TURN = "test/core/turn-stall.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "F4: a client does not see that it is asked for a blob",
    file: E2E,
    test: "F4: a client tells its logger of a blob that is not answered",
    patches: [
      {
        file: "src/client/stream.ts",
        from: "const request = requestIn(body);",
        to: "const request = requestIn(body.subarray(0, 0));",
      },
    ],
  },
  {
    name: "F4: an answer to a blob does not take it off the clock",
    file: CLIENT,
    test: "F4: a blob or a query that the application does not answer is a stall",
    patches: [
      {
        file: "src/core/client-stream.ts",
        from: `  stepStall(at, { kind: "taken_up", request });\n  if (request.kind`,
        to: `  if (request.kind`,
      },
    ],
  },
  {
    name: "F4: a question that waits for a person is a stall of the client",
    file: CLIENT,
    test: "F4: a query that waits for a person is no stall",
    patches: [
      {
        file: "src/core/client-stream.ts",
        from: "if (request !== undefined && !isOver) stepStall",
        to: "if (request !== undefined && isOver) stepStall",
      },
    ],
  },
  {
    name: "F4: a session that waits for its client's tool results reconnects every two minutes",
    file: CLIENT,
    test: "F4: an exec of a client without tools is the application's",
    patches: [
      {
        file: "src/core/client-stream.ts",
        from: "execsOutside = new Set(at.state.execsOutside).add(request.id)",
        to: "execsOutside = new Set(at.state.execsOutside)",
      },
    ],
  },
  {
    name: "F4: a heartbeat leaves out an exec that waits for an approval",
    file: CLIENT,
    test: "F4: a client's heartbeat names an exec that waits for an approval",
    patches: [
      {
        file: "src/core/tool-journal.ts",
        from: `.filter(({ hand }) => hand !== "empty")`,
        to: `.filter(({ hand }) => hand === "running")`,
      },
    ],
  },
  {
    name: "F4: a reconnect is taken for the end of a stall",
    file: "test/core/stall.test.ts",
    test: "F4: a reconnect is no activity",
    patches: [
      {
        file: "src/core/stall.ts",
        from: "const standstills = state.standstills.map((one) => ({ ...one, isCurrent: false }));",
        to: `const standstills = state.standstills.filter(({ clock }) => clock === "silence");`,
      },
    ],
  },
  {
    name: "F4: openClient keeps stalls from the application's log",
    file: "test/client-node/stall.test.ts",
    test: "F4: onStall of openClient hears of a stream that stands still",
    patches: [
      {
        file: "src/client-node/open-client.ts",
        from: "toolRunner(tools), onStall, resumesMax",
        to: "toolRunner(tools), resumesMax",
      },
    ],
  },
  {
    name: "a logger that throws ends the stream",
    file: E2E,
    test: "a logger that fails is reported as a bug and does not fail the stream",
    patches: [{ file: "src/client/stall-account.ts", from: "onBug(bug);", to: "throw bug;" }],
  },
  {
    name: "F4: a server does not look at what heartbeats say of execs",
    file: E2E,
    test: "F4: a server knows from heartbeats which execs its client has in hand",
    patches: [
      {
        file: "src/core/host-state.ts",
        from: "heardMs: nowMs, execIds: new Set(execIds) }",
        to: "heardMs: nowMs, execIds: new Set() }",
      },
    ],
  },
  {
    name: "F4: a server never names an exec that its client has lost",
    file: TURN,
    test: "F4: a turn whose exec the client has received and does not name is stalled",
    patches: [
      {
        file: "src/core/turn-stall.ts",
        from: "return execIds !== undefined && namesAll && !execIds.has(request.id);",
        to: "return false;",
      },
    ],
  },
  {
    name: "F4: a server takes a question that waits for a person for a stall",
    file: TURN,
    test: "F4: a blob that is asked for and not answered is a stall; a question waits for a person and is none",
    patches: [
      {
        file: "src/core/turn-stall.ts",
        from: `    case "query":\n      return false;`,
        to: `    case "query":\n      return true;`,
      },
    ],
  },
  {
    name: "F4: a server that was started anew knows of no request",
    file: E2E,
    test: "F4: a server that was started anew knows from the logs what its turn waits for",
    patches: [
      {
        file: "src/server/logged-requests.ts",
        from: "if (logged !== undefined) tell(logged);",
        to: "if (logged === undefined) tell({ asked: [], answered: [] });",
      },
    ],
  },
  {
    name: "F4: a stream that its host lets go of stands still for ever in the metrics",
    file: E2E,
    test: "F4: a stream that a server lets go of stands still no longer for its counters",
    patches: [
      {
        file: "src/core/host-state.ts",
        from: "for (const news of turnStall.letGo(state.stall))",
        to: "for (const news of turnStall.letGo(state.stall).slice(9))",
      },
    ],
  },
  {
    name: "F4: a host that slept takes the time it missed for a stall",
    file: TURN,
    test: "F4: a host that slept does not judge by the time it missed",
    patches: [{ file: "src/core/turn-stall.ts", from: "if (hasSlept) return [settled, news];", to: "" }],
  },
];
