/** Mends of a server whose store fails under it, taken back. */
import type { Mutation } from "./mutation.ts";

const LASTING = "src/server/lasting-server.ts";
const LASTING_TEST = "test/server/lasting-server.test.ts";
const FULL_DISK_TEST = "test/cli/full-disk.test.ts";

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "F5: a store that failed is never opened anew",
    file: LASTING_TEST,
    test: "F5: streams go on over a store that was opened anew",
    patches: [
      {
        file: LASTING,
        from: `this.#clock.after(effect.pauseMs, () => this.#put({ kind: "due" }));`,
        to: `() => undefined;`,
      },
    ],
  },
  {
    name: "D5: a stream with nothing to commit is not told that the store failed",
    file: LASTING_TEST,
    test: "D5: a stream with nothing to commit stops as well",
    patches: [
      {
        file: "src/server/keeper.ts",
        from: `for (const hosted of streams.values()) hosted.drop("durability_lost");`,
        to: "",
      },
    ],
  },
  {
    name: "D1: the store is opened while the one that failed is still open",
    file: LASTING_TEST,
    test: "D1: the store is opened only when the one that failed is closed",
    patches: [{ file: LASTING, from: "await this.#closing;\n    let opened: S;", to: "let opened: S;" }],
  },
  {
    name: "a store that was being opened while the server shut down stays open",
    file: LASTING_TEST,
    test: "a server that shuts down while the store is being opened closes it",
    patches: [
      {
        file: LASTING,
        from: "await opened.server.shutdown();\n    await opened.close();",
        to: "await opened.server.shutdown();",
      },
    ],
  },
  {
    name: "F5: an opening that holds for a moment ends the outage",
    file: "test/core/store-life.test.ts",
    test: "F5: an opening that does not hold is one that failed",
    patches: [
      {
        file: "src/core/store-life.ts",
        from: "if (outage === undefined || nowMs - openedMs >= options.holdsMs)",
        to: "if (outage === undefined || nowMs >= openedMs)",
      },
    ],
  },
  {
    name: "F5: a server whose store is gone for good looks healthy",
    file: "test/server/http/edge.test.ts",
    test: "F5: a server that is ill says so to whoever would restart it",
    patches: [
      {
        file: "src/server/http/edge.ts",
        from: "const reason = options.illness();",
        to: "const reason: string | undefined = undefined;",
      },
    ],
  },
  {
    name: "F5: a server that gave up its store ends as if its command had been wrong",
    file: FULL_DISK_TEST,
    test: "F5: a store that cannot be opened three times in a row",
    patches: [
      { file: "src/cli/failures.ts", from: "exitCode: EXIT_TRY_AGAIN,", to: "exitCode: EXIT_FAILED," },
    ],
  },
  {
    name: "F5: the gateway goes on with the tables of the store that failed",
    file: FULL_DISK_TEST,
    test: "F5: when a full disk has room again",
    patches: [
      {
        file: "src/node/standing.ts",
        from: "lasting.ask(async () => what(lasting.usable.gateway));",
        to: "first.then((gateway) => what(gateway));",
      },
      {
        file: "src/node/standing.ts",
        from: "// A gateway without its tables",
        to: "const first = Promise.resolve(lasting.standing.gateway);\n  // A gateway without its tables",
      },
    ],
  },
  {
    name: "D5: a stream without durability ends when the store is back",
    file: FULL_DISK_TEST,
    test: "D5: a stream that was opened without a store runs to its end",
    patches: [{ file: LASTING, from: "server.stepAside();", to: "void server.shutdown();" }],
  },
  {
    name: "D5: what a failed store still says from memory counts",
    file: "test/server/lasting-server.test.ts",
    test: "D5: a new stream runs without durability as soon as the store has failed",
    patches: [{ file: "src/server/keeper.ts", from: "if (isStoreLost) return undefined;", to: "" }],
  },
  {
    name: "a log on a full disk ends the server",
    file: FULL_DISK_TEST,
    test: "a log on a full disk ends no server",
    patches: [{ file: "src/node/server-log.ts", from: `destination.on("error", () => undefined);`, to: "" }],
  },
  {
    name: "A3: what a reader keeps in the write-ahead log counts before it is on the disk",
    file: "test/store/sqlite-edges.test.ts",
    test: "A3: a log that cannot be moved whole refuses the opening",
    patches: [
      {
        file: "src/store/sqlite/write-ahead-log.ts",
        from: "pages >= 0 && movedPages === pages;",
        to: "pages >= 0 && movedPages <= pages;",
      },
    ],
  },
  {
    name: "F5: an opening does not find out that the disk takes no write",
    file: "test/store/sqlite-edges.test.ts",
    test: "A3: what a killed process left in the write-ahead log",
    patches: [{ file: "src/store/sqlite/engine.ts", from: "parts.counter.next();", to: "" }],
  },
];
