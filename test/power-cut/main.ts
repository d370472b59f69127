/**
 * `npm run power-cut -- --cuts N`: pulls the plug of a server's disk, as far as software can.
 *
 * A server runs on a loop-mounted image while a client uses it. In the middle of the work the server is
 * stopped for a moment and the image copied; the copy is mounted, and everything that had been
 * acknowledged or shown by then must be in it. Then the server goes on.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { nodeSealing } from "../../src/sealing/node.ts";
import { openSqliteStore } from "../../src/store/sqlite/index.ts";
import { checkSurvived, type Findings } from "../kill/check.ts";
import { readHistory } from "../kill/history.ts";
import { listeningPort, PRINCIPAL, type Setup, setupEnvironment } from "../kill/setup.ts";
import { parse, whole } from "../../scripts/arguments.ts";
import { copyImage, makeImage, mountImage, obstacle, unmount } from "./image.ts";

const HELP = `npm run power-cut -- [options]
  --cuts N    how often the power is cut (default 10)
  --help      this text`;

const HOME_KEY = Buffer.alloc(32, 7);

class Lab {
  readonly #directory = mkdtempSync(join(tmpdir(), "holdfast-power-"));
  readonly #image = join(this.#directory, "disk.img");
  readonly #disk = join(this.#directory, "disk");
  readonly #copy = join(this.#directory, "copy.img");
  readonly #copyDisk = join(this.#directory, "copy");
  readonly #history = join(this.#directory, "history.jsonl");
  readonly #children: ChildProcess[] = [];

  async start(): Promise<ChildProcess> {
    makeImage(this.#image);
    mountImage(this.#image, this.#disk);
    mkdirSync(join(this.#disk, "data"));
    mkdirSync(join(this.#directory, "client"));
    const server = this.#fork("server.ts", join(this.#disk, "data"), 0);
    const port = await listeningPort(server);
    await once(this.#fork("client.ts", join(this.#directory, "client"), port), "message");
    return server;
  }

  /** Stopped, not killed: the copy must not see a file system that changes under it. */
  async cut(server: ChildProcess): Promise<Findings> {
    server.kill("SIGSTOP");
    const facts = readHistory(this.#history);
    copyImage(this.#image, this.#copy);
    server.kill("SIGCONT");
    mountImage(this.#copy, this.#copyDisk);
    try {
      const store = await openSqliteStore(join(this.#copyDisk, "data"), { now: () => Date.now() });
      try {
        const evidence = { store: store.streams, sealing: nodeSealing(), homeKey: HOME_KEY };
        return await checkSurvived({ ...evidence, principal: PRINCIPAL, facts });
      } finally {
        await store.close();
      }
    } finally {
      unmount(this.#copyDisk);
    }
  }

  async stop(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    }
    unmount(this.#disk);
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #fork(program: string, directory: string, port: number): ChildProcess {
    const setup: Setup = {
      url: `http://127.0.0.1:${String(port)}`,
      port,
      apiKey: "for-this-run-only",
      homeKey: HOME_KEY.toString("base64url"),
      directory,
      history: this.#history,
      transport: "http2",
      seed: 1,
    };
    const child = fork(join(import.meta.dirname, "../kill", program), { env: setupEnvironment(setup) });
    this.#children.push(child);
    return child;
  }
}

const values = parse(
  { cuts: { type: "string", default: "10" }, help: { type: "boolean", default: false } },
  HELP,
);
const missing = obstacle();
if (values.help) {
  process.stdout.write(`${HELP}\n`);
} else if (missing !== undefined) {
  process.stdout.write(`skipped: the power cannot be cut here, ${missing}\n`);
} else {
  const cuts = whole(values.cuts, "cuts", 1, HELP);
  const lab = new Lab();
  try {
    const server = await lab.start();
    for (let cut = 1; cut <= cuts; cut++) {
      await sleep(500 + Math.random() * 1_500);
      const { streams, chunks, events, delivered } = await lab.cut(server);
      process.stdout.write(
        `cut ${String(cut)}: ${String(streams)} streams, ${String(chunks)} chunks and ${String(events)} events on the disk, ${String(delivered)} had been shown\n`,
      );
    }
    process.stdout.write("no violation\n");
  } finally {
    await lab.stop();
  }
}
