/** A real line in a process of its own, and servers that come and go beside it. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { ModelCall } from "../../../../src/agent/model.ts";
import { asking, LineClient, type LinePlace } from "../../../../src/agent/models/line/line-client.ts";
import { type Asked, type Fields, fieldsIn } from "../../../../src/agent/models/line/line-wire.ts";
import { ensureLine, type LineOptions } from "../../../../src/node/line-life.ts";
import type { Cleanup } from "../../../cleanup.ts";

export class LineRig {
  readonly directory: string;
  readonly notices: string[] = [];
  readonly #t: Cleanup;
  readonly #bounds: NonNullable<LineOptions["bounds"]>;
  readonly #env: Record<string, string>;
  #epoch = 0;

  constructor(t: Cleanup, bounds: LineOptions["bounds"] = {}, env: Record<string, string> = {}) {
    this.#t = t;
    this.#bounds = { idleMs: 2_000, ...bounds };
    this.directory = mkdtempSync(join(tmpdir(), "hf-line-"));
    this.#env = { XDG_RUNTIME_DIR: this.directory, ...env };
    t.after(() => rmSync(this.directory, { recursive: true, force: true }));
  }

  ensure(): Promise<LinePlace> {
    const machine = { env: this.#env, platform: process.platform };
    const onNotice = (notice: string): void => void this.notices.push(notice);
    return ensureLine({ dataDir: this.directory, machine, onNotice, bounds: this.#bounds });
  }

  /** As a server that has just started on the data directory. */
  server(): LineClient {
    const line = new LineClient(() => this.ensure());
    this.#t.after(() => line.close());
    return line;
  }

  /** What the next run of the stream calls the requests of its attempt. */
  named(step: string): Required<Pick<ModelCall, "nameOf" | "hostEpoch" | "stream">> {
    const nameOf = (at: number): string =>
      createHash("sha256").update(`${step}/${at}`).digest("hex").slice(0, 32);
    return { nameOf, hostEpoch: ++this.#epoch, stream: { principal: "alice", idempotencyKey: step } };
  }

  /** The process that has this rig's socket open; undefined when there is none. */
  async pid(): Promise<number | undefined> {
    const { socketPath } = await this.ensure();
    return pidOf(socketPath);
  }

  get files(): readonly string[] {
    return readdirSync(this.directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
  }
}

async function pidOf(socketPath: string): Promise<number | undefined> {
  const { pid } = await askLine(socketPath, { ask: "hello", nonce: "x" });
  return typeof pid === "number" ? pid : undefined;
}

/** What a line answers: nothing, or the end of the connection, when it refuses. */
export async function askLine(
  socketPath: string,
  asked: Asked & { readonly secret?: string },
): Promise<Fields> {
  return fieldsIn(await text(asking(socketPath, asked)));
}

/** Until it is so. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(10);
}
