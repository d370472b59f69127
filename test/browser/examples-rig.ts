/**
 * The examples of `examples/` as a user has them: their pages built by Vite, their servers as processes of their own, a real Chromium in front.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, type TestContext } from "node:test";
import type { BrowserContext, Page } from "playwright-core";
import { build } from "vite";
import { keptPort } from "../kept-port.ts";
import { repository } from "../docs/entry-points.ts";
import { profile } from "./chromium.ts";
import type { HeldProvider } from "./held-provider.ts";
import { PATIENCE_MS, shownText } from "./waiting.ts";

export type Example = "use-chat" | "use-conversation" | "own-route";

const built = mkdtempSync(join(tmpdir(), "holdfast-examples-"));
after(() => rmSync(built, { recursive: true, force: true, maxRetries: 5 }));

/** Builds the page of an example; resolves with where it is. */
export async function buildExample(example: Example): Promise<string> {
  const outDir = join(built, example);
  await build({
    root: join(repository, "examples", example),
    configFile: join(repository, "examples/pages/vite.config.ts"),
    build: { outDir },
    // React's own checks are on, and its strict mode mounts everything twice.
    define: { "process.env.NODE_ENV": '"development"' },
    logLevel: "error",
  });
  return outDir;
}

export class ExampleServer {
  readonly #port: number;
  readonly #data: string;
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #process: ChildProcess | undefined;

  private constructor(port: number, args: readonly string[], env: Readonly<Record<string, string>>) {
    this.#port = port;
    this.#args = args;
    this.#env = env;
    this.#data = mkdtempSync(join(tmpdir(), "holdfast-example-"));
  }

  /** `use-conversation` has the server of `use-chat`. */
  static async start(
    t: TestContext,
    example: Example,
    page: string,
    provider: HeldProvider,
  ): Promise<ExampleServer> {
    const folder = example === "own-route" ? example : "use-chat";
    const program = join(repository, "examples", folder, "server.ts");
    const server = new ExampleServer(await keptPort(), [program, page], provider.env);
    t.after(async () => {
      await server.kill();
      rmSync(server.#data, { recursive: true, force: true, maxRetries: 5 });
    });
    await server.start();
    return server;
  }

  get url(): string {
    return `http://localhost:${this.#port}/`;
  }

  async start(): Promise<void> {
    const env = {
      ...process.env,
      ...this.#env,
      MODEL: "ollama/rehearsal",
      PORT: String(this.#port),
      DATA: this.#data,
      HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"),
    };
    const child = spawn(process.execPath, this.#args, { env, stdio: ["ignore", "pipe", "inherit"] });
    this.#process = child;
    for await (const line of createInterface({ input: child.stdout })) if (line.startsWith("ready")) return;
    throw new Error("the example's server did not start");
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
}

/** A tab with the page of an example, as a person uses it. */
export class ExamplePage {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
    page.setDefaultTimeout(PATIENCE_MS);
  }

  async say(text: string): Promise<void> {
    await this.page.getByLabel("Message").fill(text);
    await this.press("Send");
  }

  async press(button: string): Promise<void> {
    await this.page.getByRole("button", { name: button }).click();
  }

  /** The last answer. */
  async answer(): Promise<string> {
    const said = await this.page.locator("article").last().locator("p").allTextContents();
    return said.join("");
  }

  answers(isIt: (answer: string) => boolean, what: string): Promise<string> {
    return shownText(() => this.answer(), isIt, what);
  }

  /** `useChat`'s word for what it does. */
  async is(status: "ready" | "streaming" | "error"): Promise<void> {
    await this.page.locator("output", { hasText: status }).waitFor();
  }

  /** Every text that the last answer ever was since the page was loaded. */
  seen(): Promise<readonly string[]> {
    return this.page.evaluate("globalThis.seen");
  }
}

const WATCH = `
globalThis.seen = [];
new MutationObserver(() => {
  const said = [...document.querySelectorAll("article")].at(-1)?.querySelectorAll("p") ?? [];
  const text = [...said].map((one) => one.textContent).join("");
  if (globalThis.seen.at(-1) !== text) globalThis.seen.push(text);
}).observe(document, { subtree: true, childList: true, characterData: true });
`;

/** A browser profile; each call opens a tab. */
export async function tabs(t: TestContext, url: string): Promise<() => Promise<ExamplePage>> {
  const context: BrowserContext = await profile(t);
  await context.addInitScript({ content: WATCH });
  return async () => {
    const page = await context.newPage();
    page.on("pageerror", (error) => console.error("the page:", error));
    await page.goto(url);
    await page.getByLabel("Message").waitFor();
    return new ExamplePage(page);
  };
}

/** What the rehearsal model says to `count to N`. */
export function counted(to: number): string {
  return Array.from({ length: to }, (_, at) => `${at + 1} `).join("");
}
