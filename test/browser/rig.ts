/**
 * A real Holdfast server and a browser profile whose tabs talk to it, all on one origin.
 *
 * The application tells numbers, as far as the test lets it, and repeats what it hears; it keeps its
 * own account of what was logged, to compare every tab's history with.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { BrowserContext, Page } from "playwright-core";
import { HoldfastError } from "../../src/protocol/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type HttpServer, serveHttp } from "../../src/server/http/index.ts";
import { type Application, type ApplicationStream, createServer } from "../../src/server/index.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { execRequest, outcomeOf } from "../e2e/exec-messages.ts";
import { bytes } from "../e2e/rig.ts";
import { bundle } from "./bundle.ts";
import { type Answer, call } from "./page/calls.ts";
import type { ChatPage, StartOptions } from "./page/chat.ts";

/** About what a slow machine needs; nothing waits for it when all is well. */
const PATIENCE_MS = 20_000;

type Told = readonly [eventId: number, body: string];

const latin1 = (body: Uint8Array): string => Buffer.from(body).toString("latin1");

export async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await isSo())) {
    assert.ok(performance.now() < deadline, `it never happened: ${what}`);
    await sleep(10);
  }
}

export class BrowserRig {
  readonly context: BrowserContext;
  readonly bugs: unknown[] = [];
  readonly #logged = new Map<string, Map<number, string>>();
  readonly #heard = new Map<string, string[]>();
  #log = new MemoryLog({ durability: "fsync" });
  #http: HttpServer | undefined;
  #allowed = 0;
  #waiting: (() => void)[] = [];

  private constructor(context: BrowserContext) {
    this.context = context;
  }

  static async start(t: TestContext, context: BrowserContext): Promise<BrowserRig> {
    const rig = new BrowserRig(context);
    // In every page of this profile, again at each load: the pages are the server's own.
    await context.addInitScript({ content: await bundle("chat.ts") });
    await rig.#begin(0);
    t.after(async () => {
      await rig.#http?.close({ drainMs: 0 });
      assert.deepEqual(rig.bugs, []);
    });
    return rig;
  }

  get url(): string {
    assert.ok(this.#http !== undefined, "the server runs");
    return this.#http.url;
  }

  /** Lets every stream tell numbers up to this one. */
  allow(upTo: number): void {
    this.#allowed = upTo;
    for (const go of this.#waiting.splice(0)) go();
  }

  logged(idempotencyKey: string): readonly Told[] {
    return [...(this.#logged.get(idempotencyKey) ?? [])].toSorted(([a], [b]) => a - b);
  }

  heard(idempotencyKey: string): readonly string[] {
    return this.#heard.get(idempotencyKey) ?? [];
  }

  /** Until so many chunks have arrived: what is said after the end goes nowhere. */
  async hears(idempotencyKey: string, count: number): Promise<void> {
    await until(() => this.heard(idempotencyKey).length >= count, `the server hears ${count} chunks`);
  }

  /** Calls that hold a connection open, by kind. */
  async openCalls(kind: "listen" | "attach"): Promise<number> {
    const metrics = await (await fetch(`${this.url}/metrics`)).text();
    const line = metrics.split("\n").find((one) => one.includes("open") && one.includes(`"${kind}"`));
    return Number(line?.split(" ").at(-1) ?? 0);
  }

  /** Nobody is told, and the old process gets no other word onto the disk. */
  async crash(): Promise<void> {
    const { port } = new URL(this.url);
    await this.#log.close();
    await this.#http?.close({ drainMs: 0 });
    this.#log = this.#log.reopened();
    await this.#begin(Number(port));
  }

  async tab(options: StartOptions = {}): Promise<Tab> {
    const page = await this.context.newPage();
    const tab = new Tab(page);
    await page.goto(this.url);
    await tab.call("start", options);
    return tab;
  }

  async #begin(port: number): Promise<void> {
    const store = await openLogStreamStore(this.#log, { now: () => Date.now() });
    const server = createServer({
      store,
      sealing: nodeSealing(),
      application: (stream) => this.#tell(stream),
      host: { heartbeatIntervalMs: 200 },
      onBug: (bug) => this.bugs.push(bug),
    });
    this.#http = await serveHttp({
      server,
      port,
      authenticate: async (apiKey) => {
        if (apiKey === "secret") return { principal: "alice" };
        throw new HoldfastError("unauthenticated", "no such API key");
      },
    });
  }

  /** "tell N": the numbers up to N, then the end. "tool": one exec, then the end. Anything else is repeated. */
  readonly #tell: Application = async (stream) => {
    const log = this.#logOf(stream.idempotencyKey);
    let told = 0;
    let repeated = 0;
    for await (const { eventId, body } of stream.past()) {
      log.set(eventId, latin1(body));
      if (/^\d+$/.test(latin1(body))) told++;
      else repeated++;
    }
    const over = Promise.withResolvers<void>();
    const heard: string[] = [];
    this.#heard.set(stream.idempotencyKey, heard);
    const listen = async (): Promise<void> => {
      for await (const input of stream.inputs) {
        if (input.kind !== "chunk") continue;
        const words = latin1(input.body);
        heard[input.seqno] = words;
        const [, count] = /^tell (\d+)$/.exec(words) ?? [];
        if (count !== undefined) {
          void this.#count(stream, told, Number(count)).then(over.resolve, over.reject);
        } else if (words !== "tool" && heard[0] === "tool") {
          await this.#end(stream, outcomeOf(input.body));
          over.resolve();
        } else if (repeated-- <= 0) {
          await this.#emit(stream, words === "tool" ? execRequest : bytes(`heard ${words}`));
        }
      }
    };
    listen().catch(over.reject);
    await over.promise;
  };

  async #count(stream: ApplicationStream, told: number, count: number): Promise<void> {
    for (let next = told + 1; next <= count; next++) {
      while (next > this.#allowed) {
        await new Promise<void>((resolve, reject) => {
          this.#waiting.push(resolve);
          stream.signal.addEventListener("abort", () => reject(new Error("this host has stopped")));
        });
      }
      await this.#emit(stream, bytes(String(next)));
    }
    await this.#end(stream, "end");
  }

  async #emit(stream: ApplicationStream, body: Uint8Array): Promise<void> {
    this.#logOf(stream.idempotencyKey).set(await stream.emit(body), latin1(body));
  }

  async #end(stream: ApplicationStream, word: string): Promise<void> {
    this.#logOf(stream.idempotencyKey).set(await stream.end(bytes(word)), word);
  }

  #logOf(idempotencyKey: string): Map<number, string> {
    const log = this.#logged.get(idempotencyKey) ?? new Map<number, string>();
    this.#logged.set(idempotencyKey, log);
    return log;
  }
}

export class Tab {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  call<Name extends keyof ChatPage>(
    name: Name,
    ...args: Parameters<ChatPage[Name]>
  ): Promise<Answer<ChatPage, Name>> {
    return call<ChatPage, Name>(this.page, name, ...args);
  }

  async reload(options: StartOptions = {}): Promise<void> {
    await this.page.reload();
    await this.call("start", options);
  }

  async shows(idempotencyKey: string, count: number): Promise<void> {
    await until(async () => {
      const { events } = await this.call("view", idempotencyKey);
      return events.length >= count;
    }, `the tab shows ${count} events`);
  }

  async seesEnd(idempotencyKey: string): Promise<void> {
    await until(async () => (await this.call("view", idempotencyKey)).outcome !== "", "the tab sees the end");
  }

  /** The whole history is what the server logged: nothing lost, doubled or reordered. */
  async hasAllOf(rig: BrowserRig, idempotencyKey: string): Promise<void> {
    const { events, outcome } = await this.call("view", idempotencyKey);
    assert.deepEqual(events, rig.logged(idempotencyKey));
    assert.deepEqual(
      events.map(([eventId]) => eventId),
      events.map((_, at) => at + 1),
    );
    assert.equal(outcome, "completed");
    assert.deepEqual(await this.call("bugs"), []);
  }
}
